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
  if (by === "behind") found.sort(([, one], [, other]) => bySlowness(one, other));
  if (by === "rate") found.sort(([, one], [, other]) => figure(other.records_per_s) - figure(one.records_per_s));
  if (by === "actor") found.sort(([, one], [, other]) => natural(one.actor_id ?? "", other.actor_id ?? ""));
  return found.map(([id]) => id);
}

function matches(id: string, task: Task, wanted: string): boolean {
  return [id, task.actor_id, task.node_id, task.state].some((text) => text?.toLowerCase().includes(wanted));
}

/** Compares tasks as `penstock top` does: first those without an answer, then those that restore by the time left, then
 * the others by the time behind. */
function slowness(task: Task): readonly [number, number, number] {
  if (task.state === "waiting" || task.state === "silent") return [2, 0, 0];
  if (task.state !== "running") return [1, task.restore?.seconds_left ?? 0, task.restore?.remaining ?? 0];
  return [0, task.behind_s ?? 0, task.lag ?? 0];
}

function bySlowness(one: Task, other: Task): number {
  const [mine, others] = [slowness(one), slowness(other)];
  return others[0] - mine[0] || others[1] - mine[1] || others[2] - mine[2];
}

function figure(value: number | null): number {
  return isKnown(value) ? value : -1;
}

/** Returns the done share of a restore; null if there is nothing to restore. */
export function restored({ restored: done, remaining }: Restore): number | null {
  return done + remaining > 0 ? done / (done + remaining) : null;
}

/** True for a share of an actor's time without work: that it is large is no trouble by itself. */
export function isWait(share: string): boolean {
  return /idle|wait/.test(share);
}
