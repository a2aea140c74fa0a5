import { count, short } from "../common/numbers";
import type { Changes, Task } from "../server/document";
import type { components } from "../server/schema";

export type History = components["schemas"]["HistoryBody"];
export type HistoryEvent = History["events"][number];

/** A series of the whole application, as it is drawn. `counts`: its figures are whole numbers. */
export const SERIES = [
  { name: "records_per_s", title: "Records per second", counts: false },
  { name: "behind_s", title: "Seconds behind, of the task that is furthest", counts: false },
  { name: "lag", title: "Lag, records", counts: true },
  { name: "commits_per_s", title: "Commits per second", counts: false },
  { name: "restoring", title: "Tasks that restore", counts: true },
  { name: "dead_letters", title: "Dead letters in each step", counts: true },
] as const;

/** Returns a figure of an axis. An axis of counts has no figure between two of them. */
export function axisText(value: number, counts: boolean): string {
  if (!counts || value >= 1_000) return short(value);
  return Number.isInteger(value) ? count(value) : "";
}

/** Returns the times of all steps, in seconds since 1970. */
export function timesOf(history: History): number[] {
  const from = history.from_ms;
  if (from === null) return [];
  return history.samples.application.lag.map((_, step) => (from + step * history.step_ms) / 1_000);
}

/** Returns times, in seconds since 1970, as the reader's clock shows them: with their seconds if they are less than a
 * minute apart, so that no two are the same. */
export function clocks(times: readonly number[], apart_s: number): string[] {
  return times.map((at) => new Date(at * 1_000).toLocaleTimeString("en-GB").slice(0, apart_s < 60 ? 8 : 5));
}

/** Events, such as lines of a log, arrive up to so much later than they happened. */
const LATE_MS = 60_000;
const HOUR_MS = 3_600_000;
const MOST_EVENTS = 2_000;

/** Returns the time from which the history is to be asked for again: a moment before its end. */
export function againFrom(history: History | null): number {
  if (history === null || history.from_ms === null) return 0;
  const end = history.from_ms + history.samples.application.lag.length * history.step_ms;
  return Math.max(0, end - LATE_MS);
}

/** Returns a history with what has come since, which replaces the end that it has itself. Null: the whole history has to
 * be asked for, since another coordinator has begun one, or its steps have changed. */
export function continued(known: History, news: History): History | null {
  if (news.began_ms !== known.began_ms || news.step_ms !== known.step_ms) return null;
  const events = joined(known.events, news.events);
  if (news.from_ms === null || known.from_ms === null) return { ...(known.from_ms === null ? news : known), events };
  const kept = (news.from_ms - known.from_ms) / known.step_ms;
  if (kept < 0) return null;
  const length = kept + news.samples.application.lag.length;
  const gone = Math.max(0, length - HOUR_MS / known.step_ms);
  const application = { ...known.samples.application };
  for (const name of Object.keys(application) as (keyof typeof application)[]) {
    const before = known.samples.application[name];
    const padded = Array.from({ length: kept }, (_, step) => before[step] ?? null);
    application[name] = [...padded, ...news.samples.application[name]].slice(gone);
  }
  const from_ms = known.from_ms + gone * known.step_ms;
  return { ...news, from_ms, samples: { ...news.samples, application }, events };
}

/** Returns all events in the order of time. One that has happened again replaces what it was. */
function joined(known: readonly HistoryEvent[], news: readonly HistoryEvent[]): HistoryEvent[] {
  const found = new Map([...known, ...news].map((event) => [identity(event), event]));
  return [...found.values()].sort((one, other) => one.at_ms - other.at_ms).slice(-MOST_EVENTS);
}

function identity({ at_ms, kind, level, actor_id, task_id, sentence }: HistoryEvent): string {
  return JSON.stringify([at_ms, kind, level, actor_id, task_id, sentence]);
}

/** Returns the rows of everything as it was at the last step of a history. Figures that it does not have are not known. */
export function rowsThen({ samples }: History): Required<Pick<Changes, "findings" | "tasks" | "operators" | "topics">> {
  const finding = samples.findings.at(-1) ?? null;
  return {
    findings: finding === null ? {} : { "0": finding },
    tasks: mapped(samples.tasks, (task, id) => taskThen(id, task, samples)),
    operators: mapped(samples.operators, ({ records_per_s, busy }) => ({
      subtopology: 0, // the picture has its own
      records_per_s: records_per_s.at(-1) ?? null,
      busy: busy.at(-1) ?? null,
      busy_sum: null,
      calls_in_flight: null,
      calls_waiting: null,
      breaker: null,
    })),
    topics: mapped(samples.topics, ({ records_in_per_s, records_out_per_s }) => ({
      records_in_per_s: records_in_per_s.at(-1) ?? null,
      records_out_per_s: records_out_per_s.at(-1) ?? null,
      bytes_in_per_s: null,
      bytes_out_per_s: null,
      lag: null,
      // Not known; the picture marks only those that are.
      without_leader: [],
      missing_brokers: [],
    })),
  };
}

type Samples = History["samples"];

function taskThen(id: string, task: NonNullable<Samples["tasks"][string]>, samples: Samples): Task {
  const [subtopology = 0, partition = 0] = id.split("_").map(Number);
  const [actor, state] = [task.actor.at(-1) ?? null, task.state.at(-1) ?? null];
  return {
    subtopology,
    partition,
    actor_id: actor === null ? null : (samples.actors[actor] ?? null),
    node_id: null,
    state: state === null ? "waiting" : ((samples.states[state] ?? "waiting") as Task["state"]),
    behind_s: task.behind_s.at(-1) ?? null,
    lag: null,
    records_per_s: task.records_per_s.at(-1) ?? null,
    busy: task.busy.at(-1) ?? null,
    dropped_records: null,
    restore: null,
    standbys: [],
    moving_to: null,
    waits_for: null,
    topics: [],
  };
}

function mapped<From, To>(from: Readonly<Record<string, From>>, to: (value: From, id: string) => To) {
  return Object.fromEntries(Object.entries(from).map(([id, value]) => [id, to(value, id)] as const));
}
