import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { Problem } from "../common/dialog";
import { isKnown, moment } from "../common/numbers";
import { Sentence } from "../overview/findings";
import { LiveDocument } from "../server/live_document";
import { useTopology } from "../server/topology_source";
import type { Session } from "../session/session";
import { Strip } from "../topology/strip";
import { Picture } from "../topology/topology";
import { type History, rowsThen } from "./series";

const SETTLED_AFTER_MS = 150;

interface Properties {
  session: Session;
  subject: string | null;
  /** The chosen time in ms; null: now. */
  at: number | null;
  /** Length of a step in ms. */
  step: number;
}

/** The topology and the tasks as they were at a time, or as they are. */
export function Then({ session, subject, at, step }: Properties) {
  useTopology(session);
  const found = useThen(session, at, step);
  const now = session.application.value?.at_ms ?? Date.now();
  if (found.problem !== null) return <Problem error={found.problem} />;
  const { document, shown } = found;
  const [finding] = shown === null ? [] : document.sections.findings.entries();
  return (
    <div class="then" data-then={shown ?? undefined}>
      <h3>{shown === null ? "Topology and tasks now" : `Topology and tasks at ${moment(shown, now)}`}</h3>
      {finding === undefined || shown === null ? null : <Sentence finding={finding[1]} now={shown} more={0} />}
      {shown === null ? null : <OtherVersion session={session} document={document} />}
      <Picture session={session} subject={subject} document={document} view="time" />
      <Strip document={document} />
    </div>
  );
}

interface Found {
  document: LiveDocument;
  /** The time of the document, in ms; null: now. */
  shown: number | null;
  problem: unknown;
}

/** Returns the document of a time. The time before is shown until the new one has not changed for a moment, and is there. */
function useThen(session: Session, at: number | null, step: number): Found {
  const then = useMemo(() => new LiveDocument(), []);
  const shown = useSignal<number | null>(null);
  const problem = useSignal<unknown>(null);
  useEffect(() => {
    if (at === null) {
      shown.value = problem.value = null;
      return;
    }
    const ended = new AbortController();
    const timer = setTimeout(async () => {
      const path = `${session.path.peek()}history?from_ms=${at}&to_ms=${at + step - 1}`;
      try {
        const history = await session.client.get<History>(path, ended.signal);
        const application = session.application.peek();
        then.apply({ ...rowsThen(history), application: application === undefined ? {} : { it: application } }, true);
        shown.value = at;
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
  const isNow = at === null || shown.value === null;
  return { document: isNow ? session.document : then, shown: isNow ? null : shown.value, problem: problem.value };
}

/** A note if operators ran then which the program of now does not have. */
function OtherVersion({ session, document }: { session: Session; document: LiveDocument }) {
  const known = session.topology.document.value?.operators;
  const ran = document.sections.operators
    .entries()
    .filter(([, row]) => isKnown(row.records_per_s) || isKnown(row.busy));
  return known === undefined || ran.every(([name]) => Object.hasOwn(known, name)) ? null : (
    <p class="quiet" role="status">
      Another version of the program ran then. The picture is that of the program of now.
    </p>
  );
}
