import { useComputed } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { moment, seconds, utc } from "../common/numbers";
import { visible } from "../common/text";
import type { Finding, Level } from "../server/document";
import { hashOf } from "../session/route";
import type { Session } from "../session/session";
import { VIEWS } from "../session/views";

const WORDS: Record<Level, string> = { ok: "Well", warning: "Warning", fault: "Fault" };

/** The faults and warnings, the worst first, or the sentence that all is well. At most `most` sentences. */
export function Findings({ session, most }: { session: Session; most: number }) {
  const found = useComputed(() => session.document.sections.findings.entries()).value;
  // The server's clock, since it also gives the time of the finding.
  const now = session.application.value?.at_ms ?? Date.now();
  return (
    <section class="findings" data-testid="findings" aria-label="Findings">
      {found.slice(0, most).map(([id, finding], index) => (
        <Sentence key={id} finding={finding} now={now} more={index + 1 === most ? found.length - most : 0} />
      ))}
      <Announced found={found.map(([, finding]) => finding)} />
    </section>
  );
}

/** The worst finding for a screen reader: read out when another thing is wrong, and not with each new figure in it. */
function Announced({ found }: { found: readonly Finding[] }) {
  const worst = found[0];
  const about = worst === undefined ? "" : `${worst.level} ${worst.view} ${worst.subject}`;
  const text = useMemo(() => (worst === undefined ? "" : `${WORDS[worst.level]}: ${visible(worst.sentence)}`), [about]);
  return (
    <span class="unseen" aria-live="polite">
      {text}
    </span>
  );
}

/** One finding, with the way to what it is about. */
export function Sentence({ finding, now, more }: { finding: Finding; now: number; more: number }) {
  const view = VIEWS.find(({ name }) => name === finding.view);
  const leads = view !== undefined && finding.level !== "ok" && (view.name !== "overview" || finding.subject !== null);
  return (
    <p class="finding" data-level={finding.level}>
      <strong class="level">{WORDS[finding.level]}</strong>
      <span class="sentence">{visible(finding.sentence)}</span>
      {finding.since_ms === null ? null : (
        <span class="since">
          since{" "}
          <time dateTime={utc(finding.since_ms)} title={utc(finding.since_ms)}>
            {moment(finding.since_ms, now)}
          </time>
          {`, for ${seconds(Math.max(0, now - finding.since_ms) / 1000)}`}
        </span>
      )}
      {leads ? (
        <a class="way" href={hashOf(finding.view, finding.subject)}>
          {finding.subject === null ? view.title : `${view.title}: ${visible(finding.subject, 60)}`}
        </a>
      ) : null}
      {more > 0 ? (
        <a class="way" href={hashOf("overview")}>
          {more} more
        </a>
      ) : null}
    </p>
  );
}
