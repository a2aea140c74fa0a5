import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { Problem } from "../common/dialog";
import { moment } from "../common/numbers";
import type { Session } from "../session/session";
import type { ViewProperties } from "../session/views";
import { Chart } from "./chart";
import { Events } from "./events";
import { againFrom, continued, type History, SERIES, timesOf } from "./series";
import { Then } from "./then";

const AGAIN_AFTER_MS = 5_000;

/** The last hour: figures, events, and everything as it was at a time that one chooses. */
export function Time({ session, subject }: ViewProperties) {
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
      <Hour session={session} subject={subject} found={found} />
    </>
  );
}

function Hour({ session, subject, found }: ViewProperties & { found: History }) {
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
          <div class="bar time-bar" data-then={chosen.value === null ? undefined : true}>
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
            {SERIES.map(({ name, title, counts }) => (
              <Chart
                key={name}
                title={title}
                counts={counts}
                times={times}
                values={found.samples.application[name]}
                step={step}
                onStep={choose}
              />
            ))}
          </div>
          <Then
            session={session}
            subject={subject}
            at={chosen.value === null ? null : (times[step] ?? 0) * 1_000}
            step={found.step_ms}
          />
        </>
      )}
      <h3>Events, errors and warnings</h3>
      <Events session={session} events={found.events} now={now} />
    </>
  );
}

/** Asks again and again for what is new. The series of tasks and operators are left out: an hour of many is large. */
async function followed(
  session: Session,
  history: { value: History | null },
  problem: { value: unknown },
  ended: AbortSignal,
): Promise<void> {
  let whole: History | null = null;
  while (!ended.aborted) {
    try {
      const path = `${session.path.peek()}history?from_ms=${againFrom(whole)}&tasks=&details=false`;
      const news: History = await session.client.get<History>(path, ended);
      whole = whole === null ? news : continued(whole, news);
      problem.value = null;
      if (whole === null) continue;
      history.value = whole;
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
