import { isKnown } from "../common/numbers";
import type { Restore, Task } from "../server/document";
import { natural } from "../server/live_document";

export type SortBy = "task" | "behind" | "rate" | "actor";

export const SORTS: readonly [SortBy, string][] = [
  ["task", "Task"],
  ["behind", "Behind, the most first"],
  ["rate", "Records/s, the most first"],
  ["actor", "Actor"],
];

/** Returns the ids of the tasks whose id, actor, node or state contain the text, in the order that is asked for. */
export function chosen(rows: readonly [string, Task][], text: string, by: SortBy): string[] {
  const wanted = text.trim().toLowerCase();
  const found = rows.filter(([id, task]) => matches(id, task, wanted));
  if (by === "behind") found.sort(([, one], [, other]) => trouble(other) - trouble(one));
  if (by === "rate") found.sort(([, one], [, other]) => figure(other.records_per_s) - figure(one.records_per_s));
  if (by === "actor") found.sort(([, one], [, other]) => natural(one.actor_id ?? "", other.actor_id ?? ""));
  return found.map(([id]) => id);
}

function matches(id: string, task: Task, wanted: string): boolean {
  return [id, task.actor_id, task.node_id, task.state].some((text) => text?.toLowerCase().includes(wanted));
}

/** A task that does not process is worse than each one that does. */
function trouble(task: Task): number {
  return task.state === "running" ? figure(task.behind_s) : Number.MAX_VALUE;
}

function figure(value: number | null): number {
  return isKnown(value) ? value : -1;
}

/** Returns the done share of a restore; null if there is nothing to restore. */
export function restored({ restored: done, remaining }: Restore): number | null {
  return done + remaining > 0 ? done / (done + remaining) : null;
}
