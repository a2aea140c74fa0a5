import { counted } from "../common/numbers";
import type { components } from "../server/schema";

export type Change = components["schemas"]["ChangeBody"];
type Fate = Change["fate"];

/** Fates that cost time or state, the worst first. */
export const CHANGES_FIRST: readonly Fate[] = ["refused", "rebuilt", "orphaned", "gone", "restored"];
const ORDER: readonly Fate[] = [...CHANGES_FIRST, "changed", "moved", "new", "kept"];
const NOUNS: Record<Change["kind"], string> = { tasks: "group", store: "store", topic: "topic" };

/** Returns the changes with those that cost most first. */
export function inOrder(changes: readonly Change[]): Change[] {
  return changes.toSorted((one, other) => ORDER.indexOf(one.fate) - ORDER.indexOf(other.fate));
}

/** Returns the number of stores, topics and groups of tasks of each fate, as a sentence. */
export function summary(changes: readonly Change[]): string {
  const parts = (["tasks", "store", "topic"] as const).flatMap((kind) => {
    const own = changes.filter((change) => change.kind === kind);
    const noun = NOUNS[kind];
    return ORDER.flatMap((fate) => {
      const count = own.filter((change) => change.fate === fate).length;
      return count === 0 ? [] : [`${counted(count, noun)}${kind === "tasks" ? " of tasks" : ""} ${fate}`];
    });
  });
  return parts.length === 0 ? "Nothing changes." : `${parts.join(", ")}.`;
}
