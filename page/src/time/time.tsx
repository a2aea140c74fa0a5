import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { Problem } from "../common/dialog";
import { BEHIND_LEGEND, behindHeat, heatClass } from "../common/heat";
import { Legend } from "../common/legend";
import { moment, percent, rate, seconds } from "../common/numbers";
import { visible } from "../common/text";
import type { Session } from "../shell/session";
import type { ViewProperties } from "../shell/views";
import { Chart } from "./chart";
import { Events } from "./events";
import { type History, SERIES, type TaskThen, tasksThen, timesOf } from "./series";

const AGAIN_AFTER_MS = 5_000;
const SETTLED_AFTER_MS = 150;

/** The last hour: figures, events, and the tasks as they were at a time that one chooses. */
export function Time({ session }: ViewProperties) {
  const history = useSignal<History | null>(null);
  const problem = useSignal<unknown>(null);
  useEffect(() => {
    const ended = new AbortController();
    void followed(session, history, problem, ended.signal);
    return () => ended.abort();
  }, []);
  const found = history.value;
  if (found === null)
    return problem.value === null ? <p class="quiet">Asking for the last hour …</p> : <Problem error={problem.value} />;
  return (
    <>
      {problem.value === null ? null : <Problem error={problem.value} />}
      <Hour session={session} found={found} />
    </>
  );
}

function Hour({ session, found }: { session: Session; found: History }) {
  /** The chosen time in ms; null: now. */
  const chosen = useSignal<number | null>(null);
  // The same array as long as the history is the same, so that the charts are drawn again with it alone.
  const times = useMemo(() => timesOf(found), [found]);
  const last = times.length - 1;
  const step = chosen.value === null ? last : nearest(times, chosen.value / 1_000);
  const now = session.application.value?.at_ms ?? Date.now();
  const choose = (next: number) => {
    chosen.value = next >= last ? null : (times[next] ?? 0) * 1_000;
  };
  return (
    <>
      {last < 0 ? (
        <p class="quiet">The coordinator has no figures yet.</p>
      ) : (
        <>
          <div class="bar time-bar">
            <label>
              {chosen.value === null ? "Now" : `Then: ${moment(chosen.value, now)}`}
              <input
                type="range"
                min={0}
                max={last}
                value={step}
                aria-valuetext={moment((times[step] ?? 0) * 1_000, now)}
                onInput={(event) => choose(event.currentTarget.valueAsNumber)}
              />
            </label>
            <button type="button" disabled={chosen.value === null} onClick={() => choose(last)}>
              Back to now
            </button>
          </div>
          <div class="charts">
            {SERIES.map(({ name, title }) => (
              <Chart
                key={name}
                title={title}
                times={times}
                values={found.samples.application[name]}
                step={step}
                onStep={choose}
              />
            ))}
          </div>
          <h3>{chosen.value === null ? "Tasks now" : `Tasks at ${moment(chosen.value, now)}`}</h3>
          <TasksThen session={session} at={(times[step] ?? 0) * 1_000} step={found.step_ms} />
        </>
      )}
      <h3>Events, errors and warnings</h3>
      <Events events={found.events} now={now} />
    </>
  );
}

/** Asks again and again. The series of tasks are left out: an hour of many tasks is large. */
async function followed(
  session: Session,
  history: { value: History | null },
  problem: { value: unknown },
  ended: AbortSignal,
): Promise<void> {
  while (!ended.aborted) {
    try {
      history.value = await session.client.get<History>(`${session.path.peek()}history?tasks=`, ended);
      problem.value = null;
    } catch (error) {
      if (!ended.aborted) problem.value = error;
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_AFTER_MS));
  }
}

function nearest(times: readonly number[], at: number): number {
  const after = times.findIndex((time) => time >= at);
  return after < 0 ? times.length - 1 : after;
}

/** All tasks as they were at a time, asked for when the time has not changed for a moment. */
function TasksThen({ session, at, step }: { session: Session; at: number; step: number }) {
  const tasks = useSignal<TaskThen[]>([]);
  const problem = useSignal<unknown>(null);
  useEffect(() => {
    const ended = new AbortController();
    const timer = setTimeout(async () => {
      const path = `${session.path.peek()}history?from_ms=${at}&to_ms=${at + step - 1}`;
      try {
        tasks.value = tasksThen(await session.client.get<History>(path, ended.signal));
        problem.value = null;
      } catch (error) {
        if (!ended.signal.aborted) problem.value = error;
      }
    }, SETTLED_AFTER_MS);
    return () => {
      clearTimeout(timer);
      ended.abort();
    };
  }, [at, step]);
  if (problem.value !== null) return <Problem error={problem.value} />;
  return (
    <>
      <ul class="cells then">
        {tasks.value.map((task) => (
          <li key={task.id} class={`cell ${heatClass(behindHeat(task.behind_s))}`} title={describe(task)}>
            <span class={`fill fill-${behindHeat(task.behind_s) ?? 0}`} />
            <span class="unseen">{describe(task)}</span>
          </li>
        ))}
      </ul>
      <Legend title="Behind" steps={BEHIND_LEGEND} />
    </>
  );
}

function describe(task: TaskThen): string {
  const actor = task.actor_id === null ? "no actor" : visible(task.actor_id, 80);
  const figures = `${seconds(task.behind_s)} behind, ${rate(task.records_per_s)}, busy ${percent(task.busy)}`;
  return `Task ${task.id}: ${figures}, ${actor}`;
}
