/** Keys and values of rows as text. */

export type Form = "json" | "text" | "bytes";

const LONGEST_LINE = 100;

type Reviver = (key: string, value: unknown, context?: { source?: string }) => unknown;
type WithRaw = { rawJSON?: (text: string) => unknown };

/** Reads JSON without changing a number: integers may have more digits than a number of JavaScript keeps. */
export function parsed(text: string): unknown {
  const raw = (JSON as WithRaw).rawJSON;
  const exact: Reviver = (_, value, context) =>
    typeof value === "number" && raw !== undefined && context?.source !== undefined && String(value) !== context.source
      ? raw(context.source)
      : value;
  return JSON.parse(text, exact);
}

/** Returns a value as a text: as JSON, as the text that it is, or as the bytes whose base64 it is. Null if it has no such
 * form. */
export function written(value: unknown, form: Form): string | null {
  if (form === "json") return json(value);
  if (form === "text") return typeof value === "string" ? value : (JSON.stringify(value) ?? "null");
  const bytes = typeof value === "string" ? bytesOf(value) : null;
  return bytes === null ? null : hex(bytes);
}

/** Returns JSON in one line if it is short, else in several. */
function json(value: unknown): string {
  const lines = JSON.stringify(value, null, 2) ?? "null";
  if (lines.length > 4 * LONGEST_LINE) return lines;
  // The line ends within texts are escaped, so these are between the parts.
  const line = lines.replace(/\n */g, " ");
  return line.length <= LONGEST_LINE ? line : lines;
}

/** Returns the bytes of a text in base64; null if it is none. */
function bytesOf(text: string): string | null {
  if (!/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(text)) return null;
  return atob(text);
}

function hex(bytes: string): string {
  const pairs = Array.from(bytes, (byte) => byte.charCodeAt(0).toString(16).padStart(2, "0"));
  const lines: string[] = [];
  for (let at = 0; at < pairs.length; at += 16) lines.push(pairs.slice(at, at + 16).join(" "));
  return lines.join("\n");
}
