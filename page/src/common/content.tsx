import { count } from "./numbers";
import { visible } from "./text";
import { type Form, written } from "./values";

const SHOWN = 600;

/** A key or a value, cut if it is long: a copy has all of it. */
export function Content({ value, form }: { value: unknown; form: Form }) {
  const text = written(value, form);
  if (text === null) return <span class="quiet">not base64</span>;
  const lines = text.slice(0, SHOWN).split("\n");
  return (
    <pre>
      <bdi>{lines.map((line) => visible(line)).join("\n")}</bdi>
      {text.length > SHOWN ? <span class="quiet">{`\n… ${count(text.length)} characters`}</span> : null}
    </pre>
  );
}
