/** Text that others have written: names, keys, sentences. It enters the page as text, and cannot disturb what is around. */

// Control characters, and those that change the direction of the text after them.
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;
const SHORT: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
const LONGEST = 2_000;

/** Returns the text with its invisible characters escaped, cut to a length that a browser draws at once. */
export function visible(text: string, longest = LONGEST): string {
  const cut = text.length > longest ? `${text.slice(0, longest)}…` : text;
  return cut.replace(INVISIBLE, (found) => SHORT[found] ?? escaped(found));
}

function escaped(character: string): string {
  const code = character.charCodeAt(0);
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
}

/** A text of others, isolated from the direction of the text around it. */
export function Foreign({ text, class: name }: { text: string; class?: string }) {
  return <bdi class={name}>{visible(text)}</bdi>;
}
