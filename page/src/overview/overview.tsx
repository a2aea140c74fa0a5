import type { ComponentChildren } from "preact";
import { count, isKnown, rate, seconds, UNKNOWN } from "../common/numbers";
import { Foreign } from "../common/text";
import type { ViewProperties } from "../session/views";
import { Strip } from "../topology/strip";

/** The totals of the application. The findings are above every view. */
export function Overview({ session }: ViewProperties) {
  const application = session.application.value;
  const actors = session.document.sections.actors.ids.value.length;
  if (application === undefined) return null;
  const lag = application.lag_is_known ? count(application.lag) : `≥ ${count(application.lag)}`;
  return (
    <>
      {!application.error ? null : (
        <pre class="error">
          <Foreign text={application.error} />
        </pre>
      )}
      <dl class="totals">
        <Total name="Throughput" note="records processed, of late">
          {rate(application.records_per_s)}
        </Total>
        <Total name="Behind" note="the age of the oldest waiting record">
          {seconds(application.behind_s)}
        </Total>
        <Total name="Lag" note="records that wait in source topics">
          {isKnown(application.lag) ? lag : UNKNOWN}
        </Total>
        <Total name="Tasks" note={`on ${count(actors)} stream actor${actors === 1 ? "" : "s"}`}>
          {count(application.task_count)}
        </Total>
      </dl>
      <h3>Tasks by time behind</h3>
      <Strip document={session.document} />
    </>
  );
}

function Total({ name, note, children }: { name: string; note: string; children: ComponentChildren }) {
  return (
    <div class="total">
      <dt>{name}</dt>
      <dd class="figure">{children}</dd>
      <dd class="quiet">{note}</dd>
    </div>
  );
}
