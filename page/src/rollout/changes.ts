import { counted } from "../common/numbers";
import type { components } from "../server/schema";

export type Change = components["schemas"]["ChangeBody"];

const NOUNS: Record<Change["kind"], string> = { tasks: "group", store: "store", topic: "topic" };

/** Returns the number of stores, topics and groups of tasks of each fate, as a sentence. Fates are in the order of the
 * changes: the server gives those that cost most first. */
export function summary(changes: readonly Change[]): string {
  const fates = [...new Set(changes.map(({ fate }) => fate))];
  const parts = (["tasks", "store", "topic"] as const).flatMap((kind) =>
    fates.flatMap((fate) => {
      const count = changes.filter((change) => change.kind === kind && change.fate === fate).length;
      return count === 0 ? [] : [`${counted(count, NOUNS[kind])}${kind === "tasks" ? " of tasks" : ""} ${fate}`];
    }),
  );
  return parts.length === 0 ? "Nothing changes." : `${parts.join(", ")}.`;
}
