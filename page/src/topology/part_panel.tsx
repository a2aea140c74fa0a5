import { ShareBar } from "../common/bar";
import { bytes, count, isKnown, percent, rate } from "../common/numbers";
import { Fact, Facts, Panel } from "../common/panel";
import { Foreign, visible } from "../common/text";
import type { LiveDocument } from "../server/live_document";
import type { Box, OperatorOfTopology, TopologyDocument, UserFunction } from "../server/topology_document";
import { hashOf } from "../session/route";
import type { Session } from "../session/session";
import { isOperator, isTopic, nameOf, operatorsAt, partId, subtopologyOf } from "./parts";
import { Strip } from "./strip";

interface Properties {
  box: Box;
  topology: TopologyDocument;
  session: Session;
  document: LiveDocument;
  /** The view in which the panel is. */
  view: string;
}

/** One operator, store or topic of the picture: its figures, and the way to what belongs to it. */
export function PartPanel({ box, topology, session, document, view, onClose }: Properties & { onClose: () => void }) {
  const part = { box, topology, session, document, view };
  return (
    <Panel title={nameOf(box.id)} kind={box.title} onClose={onClose}>
      {isOperator(box) ? <OperatorPart {...part} /> : isTopic(box) ? <TopicPart {...part} /> : <StorePart {...part} />}
      {box.lane === null ? null : (
        <>
          <h4>Tasks of its sub-topology</h4>
          <Strip document={document} only={subtopologyOf(box.lane)} />
        </>
      )}
    </Panel>
  );
}

function OperatorPart({ box, topology, document, view }: Properties) {
  const name = nameOf(box.id);
  const row = document.sections.operators.value(name);
  const known = Object.hasOwn(topology.operators, name) ? topology.operators[name] : undefined;
  return (
    <>
      <Facts>
        <Fact name="Busy, of the busiest actor">
          <ShareBar share={row?.busy} />
        </Fact>
        <Fact name="Busy, all actors together">{percent(row?.busy_sum)}</Fact>
        <Fact name="Records in">{rate(row?.records_per_s)}</Fact>
        {isKnown(row?.calls_in_flight) ? <Fact name="Calls in flight">{count(row.calls_in_flight)}</Fact> : null}
        {row?.breaker ? <Fact name="Circuit breaker">{row.breaker}</Fact> : null}
      </Facts>
      {known === undefined ? null : <OperatorParts operator={known} view={view} />}
    </>
  );
}

function OperatorParts({ operator, view }: { operator: OperatorOfTopology; view: string }) {
  return (
    <>
      {operator.functions.length === 0 ? null : <h4>Functions</h4>}
      {operator.functions.map((each) => (
        <FunctionLines key={`${each.role} ${each.name}`} of={each} />
      ))}
      <Links view={view} title="Stores" kind="store" names={operator.stores} />
      <Links view={view} title="Topics" kind="topic" names={operator.topics} />
    </>
  );
}

function FunctionLines({ of }: { of: UserFunction }) {
  return (
    <p class="function">
      <span class="quiet">{visible(of.role)}</span> <Foreign class="mono" text={of.name} />
      {of.file === null ? null : (
        <>
          <br />
          <Foreign class="mono place" text={of.line === null ? of.file : `${of.file}:${of.line}`} />
        </>
      )}
    </p>
  );
}

function TopicPart({ box, topology, document, view }: Properties) {
  const row = box.topic === null ? undefined : document.sections.topics.value(box.topic);
  return (
    <>
      <Facts>
        <Fact name="Read from it">{rate(row?.records_in_per_s)}</Fact>
        <Fact name="Written to it">{rate(row?.records_out_per_s)}</Fact>
        <Fact name="Lag">{count(row?.lag)}</Fact>
        {row === undefined || row.missing_brokers.length === 0 ? null : (
          <Fact name="Brokers that are away">{visible(row.missing_brokers.join(", "))}</Fact>
        )}
        {row === undefined || row.without_leader.length === 0 ? null : (
          <Fact name="Partitions without a leader">{row.without_leader.join(", ")}</Fact>
        )}
      </Facts>
      {box.topic === null ? null : (
        <p>
          <a href={hashOf("records", box.topic)}>Its newest records</a>
        </p>
      )}
      <Links view={view} title="Operators" kind="node" names={operatorsAt(topology, box.id)} />
    </>
  );
}

function StorePart({ box, topology, document, view }: Properties) {
  const name = nameOf(box.id);
  const row = document.sections.stores.value(name);
  return (
    <>
      <Facts>
        <Fact name="Rows, approximately">{count(row?.rows)}</Fact>
        <Fact name="Size">{bytes(row?.bytes)}</Fact>
        <Fact name="Tasks that restore it">{count(row?.restoring)}</Fact>
      </Facts>
      <p>
        <a href={hashOf("stores", name)}>Look into the store</a>
      </p>
      <Links view={view} title="Operators" kind="node" names={operatorsAt(topology, box.id)} />
    </>
  );
}

function Links({ view, title, kind, names }: { view: string; title: string; kind: string; names: readonly string[] }) {
  if (names.length === 0) return null;
  return (
    <>
      <h4>{title}</h4>
      <ul class="links">
        {names.map((name) => (
          <li key={name}>
            <a href={hashOf(view, kind === "node" ? partId(kind, name) : name)}>
              <Foreign text={name} />
            </a>
          </li>
        ))}
      </ul>
    </>
  );
}
