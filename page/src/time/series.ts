import type { components } from "../server/schema";

export type History = components["schemas"]["HistoryBody"];
export type HistoryEvent = History["events"][number];

/** A series of the whole application, as it is drawn. */
export const SERIES = [
  { name: "records_per_s", title: "Records per second" },
  { name: "behind_s", title: "Seconds behind, of the task that is furthest" },
  { name: "lag", title: "Lag, records" },
  { name: "commits_per_s", title: "Commits per second" },
  { name: "restoring", title: "Tasks that restore" },
  { name: "dead_letters", title: "Dead letters in each step" },
] as const;

/** Returns the times of all steps, in seconds since 1970. */
export function timesOf(history: History): number[] {
  const from = history.from_ms;
  if (from === null) return [];
  return history.samples.application.lag.map((_, step) => (from + step * history.step_ms) / 1_000);
}

/** A task as it was at a time. */
export interface TaskThen {
  id: string;
  behind_s: number | null;
  records_per_s: number | null;
  busy: number | null;
  actor_id: string | null;
}

/** Returns all tasks as they were at the last step of a history. */
export function tasksThen({ samples }: History): TaskThen[] {
  return Object.entries(samples.tasks).map(([id, task]) => {
    const actor = task.actor.at(-1) ?? null;
    return {
      id,
      behind_s: task.behind_s.at(-1) ?? null,
      records_per_s: task.records_per_s.at(-1) ?? null,
      busy: task.busy.at(-1) ?? null,
      actor_id: actor === null ? null : (samples.actors[actor] ?? null),
    };
  });
}
