/** The queries that each kind of store answers, and their addresses. */

export type QueryName = "key" | "range" | "prefix" | "times-of-key" | "times" | "version" | "history";

export interface Question {
  key: string;
  from: string;
  to: string;
  /** For windows the bounds of their starts; for sessions earliest end and latest start; for versions their validity. */
  time_from: string;
  time_to: string;
  committed: boolean;
  descending: boolean;
}

export const NO_QUESTION: Question = {
  key: "",
  from: "",
  to: "",
  time_from: "",
  time_to: "",
  committed: false,
  descending: false,
};

/** The fields that a query has. */
export type Field = "key" | "prefix" | "from" | "to" | "time_from" | "time_to";

interface QueryForm {
  name: QueryName;
  title: string;
  fields: readonly Field[];
  /** One row, or pages of rows. */
  paged: boolean;
}

const TIMES_OF_KEY: readonly Field[] = ["key", "time_from", "time_to"];
const TIMES: readonly Field[] = ["from", "to", "time_from", "time_to"];

/** Returns the queries that a kind of store answers; none if this page knows none. */
export function queriesOf(kind: string): QueryForm[] {
  if (kind.includes("versioned"))
    return [
      { name: "version", title: "Version of a key", fields: ["key", "time_to"], paged: false },
      { name: "history", title: "All versions of a key", fields: TIMES_OF_KEY, paged: true },
    ];
  if (kind.includes("window") || kind.includes("session")) {
    const what = kind.includes("window") ? "Windows" : "Sessions";
    return [
      { name: "times-of-key", title: `${what} of a key`, fields: TIMES_OF_KEY, paged: true },
      { name: "times", title: `${what} of a range of keys`, fields: TIMES, paged: true },
    ];
  }
  if (!kind.includes("key-value")) return [];
  return [
    { name: "key", title: "One key", fields: ["key"], paged: false },
    { name: "range", title: "Range of keys", fields: ["from", "to"], paged: true },
    { name: "prefix", title: "Keys with a prefix", fields: ["prefix"], paged: true },
  ];
}

/** Returns the text beside a field. */
export function labelOf(field: Field, kind: string, query: QueryName): string {
  const session = kind.includes("session");
  switch (field) {
    case "key":
      return "Key";
    case "prefix":
      return "Prefix";
    case "from":
      return "First key";
    case "to":
      return "Last key";
    case "time_from":
      return session ? "Earliest end" : query === "history" ? "Valid from" : "Earliest start";
    case "time_to":
      if (query === "version") return "Valid at";
      return session ? "Latest start" : query === "history" ? "Valid until" : "Latest start";
  }
}

/** Returns the address of a question, relative to the application. */
export function addressOf(
  store: string,
  kind: string,
  query: QueryName,
  asked: Question,
  cursor: string | null,
): string {
  const base = `stores/${encoded(store)}/`;
  const parameters = new URLSearchParams();
  if (asked.committed) parameters.set("isolation", "committed");
  const set = (name: string, value: string) => value.trim() !== "" && parameters.set(name, value.trim());
  const path = base + routeOf(kind, query, asked.key);
  if (query === "range" || query === "times") {
    if (asked.from !== "") parameters.set("from", asked.from);
    if (asked.to !== "") parameters.set("to", asked.to);
  }
  if (query === "prefix") parameters.set("prefix", asked.key);
  if (query === "version") set("as_of", asked.time_to);
  if (query === "times" || query === "times-of-key" || query === "history") {
    set(kind.includes("session") ? "earliest_end" : "time_from", asked.time_from);
    set(kind.includes("session") ? "latest_start" : "time_to", asked.time_to);
  }
  if (query !== "key" && query !== "version") {
    if (asked.descending) parameters.set("order", "desc");
    if (cursor !== null) parameters.set("cursor", cursor);
  }
  const text = parameters.toString();
  return text === "" ? path : `${path}?${text}`;
}

function routeOf(kind: string, query: QueryName, key: string): string {
  const times = kind.includes("session") ? "sessions" : "windows";
  switch (query) {
    case "key":
      return `keys/${encoded(key)}`;
    case "range":
    case "prefix":
      return "range";
    case "times-of-key":
      return `${times}/${encoded(key)}`;
    case "times":
      return times;
    case "version":
      return `versions/${encoded(key)}`;
    case "history":
      return `history/${encoded(key)}`;
  }
}

/** A browser takes the segments `.` and `..` out of an address, also as %2E: these keys cannot be in a path. */
export function hasAddress(key: string): boolean {
  return key !== "" && key !== "." && key !== "..";
}

function encoded(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}
