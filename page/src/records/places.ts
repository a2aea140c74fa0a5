/** Addresses and choices of dead letters. No topic has a colon in its name, so that these are no topics. */

import type { components } from "../server/schema";

export type Letter = components["schemas"]["LetterBody"];
export type Wish = Partial<Omit<components["schemas"]["ReplayRequestBody"], "dry_run">>;

const LETTERS = "letters:";

/** Returns the subject of the list of letters, or of the letter at a place. */
export function subjectOf(place = ""): string {
  return `${LETTERS}${place}`;
}

/** Returns the place that a subject names, empty for the list; null if it names something else than letters. */
export function placeIn(subject: string | null): string | null {
  return subject?.startsWith(LETTERS) ? subject.slice(LETTERS.length) : null;
}

/** Returns the place of a letter: partition and offset. */
export function placeOf(letter: Pick<Letter, "partition" | "offset">): string {
  return `${letter.partition}@${letter.offset}`;
}

/** Returns the path of a place after the topic; null if it is none. */
export function pathOf(place: string): string | null {
  return /^\d{1,9}@\d{1,18}$/.test(place) ? place.replace("@", "/") : null;
}

/** Letters that can be replayed together. */
export interface Choice {
  title: string;
  wish: Wish;
}

/** Returns the choices that there are: the marked letters, those of each error, and those of each topic. */
export function choicesOf(letters: readonly Letter[], marked: readonly string[]): Choice[] {
  const some = marked.length === 1 ? `the letter ${marked[0]}` : `the ${marked.length} chosen letters`;
  const exceptions = different(letters.map(({ error }) => error?.exception));
  const topics = different(letters.map(({ origin }) => origin.topic));
  return [
    ...(marked.length === 0 ? [] : [{ title: some, wish: { places: [...marked] } }]),
    ...exceptions.map((exception) => ({ title: `all with error ${exception}`, wish: { exceptions: [exception] } })),
    ...topics.map((topic) => ({ title: `all of records of topic ${topic}`, wish: { topics: [topic] } })),
  ];
}

function different(texts: readonly (string | null | undefined)[]): string[] {
  return [...new Set(texts)].filter((text): text is string => typeof text === "string" && text !== "");
}
