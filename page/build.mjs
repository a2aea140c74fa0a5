// Builds the page into the folder of the first argument: index.html, page.js, page.css, favicon.svg.
// The same sources and packages give the same bytes.
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "esbuild";

const here = import.meta.dirname;
const into = process.argv[2];

/** Returns the licences of the packages in the bundle, as a comment. */
async function licences() {
  const { dependencies } = JSON.parse(await readFile(join(here, "package.json"), "utf8"));
  const names = [...Object.keys(dependencies), "@preact/signals-core"].sort();
  const texts = names.map(async (name) => {
    const folder = join(here, "node_modules", name);
    const { version } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    return `${name} ${version}\n\n${(await readFile(join(folder, "LICENSE"), "utf8")).trim()}`;
  });
  return `/*! This file contains:\n\n${(await Promise.all(texts)).join("\n\n---\n\n")}\n*/`;
}

await mkdir(into, { recursive: true });
const common = { bundle: true, minify: true, charset: "utf8", legalComments: "none", logLevel: "warning" };
await build({
  ...common,
  entryPoints: [join(here, "src", "main.tsx")],
  outfile: join(into, "page.js"),
  format: "esm",
  target: ["chrome123", "firefox121", "safari17.5"],
  jsx: "automatic",
  jsxImportSource: "preact",
  footer: { js: await licences() },
});
await build({
  ...common,
  entryPoints: [join(here, "src", "style", "page.css")],
  outfile: join(into, "page.css"),
  target: ["chrome123", "firefox121", "safari17.5"],
});
const html = await readFile(join(here, "src", "index.html"), "utf8");
await writeFile(join(into, "index.html"), html);
await copyFile(join(here, "src", "favicon.svg"), join(into, "favicon.svg"));
