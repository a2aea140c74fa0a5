import { useComputed } from "@preact/signals";
import { ShareBar } from "../common/bar";
import { useIds } from "../common/ids";
import { count, isKnown, percent, rate } from "../common/numbers";
import { Table } from "../common/table";
import { Foreign, visible } from "../common/text";
import { useTopology } from "../server/topology_source";
import { ActorLink } from "../session/actor_link";
import { hashOf } from "../session/route";
import type { Session } from "../session/session";
import type { ViewProperties } from "../session/views";
import { ActorStateCell, COMMIT_PAUSES, CommitPauseCells } from "../tasks/actor_cells";
import { isWait } from "../tasks/order";
import { functionsOf, partId } from "../topology/parts";
import { Flame, FlameButton } from "./flame";
import { busiest, figuresOf, sharesOf } from "./order";
import { figureText, titleOf } from "./units";

/** The busiest operators, and the shares of each stream actor's time. */
export function Slow({ session, subject }: ViewProperties) {
  useTopology(session);
  return (
    <>
      <h3>Operators, the busiest first</h3>
      <p class="quiet">
        Shares of an actor's time in the last half minute: of the actor of which the operator takes most, and of all
        actors together.
      </p>
      <Operators session={session} />
      <h3>Time of the stream actors</h3>
      <p class="quiet">Shares of the last half minute.</p>
      <Actors session={session} subject={subject} />
      <Flame session={session} />
      <Figures session={session} what="rocksdb" title="RocksDB, all stores of an actor together" />
      <Figures session={session} what="gc" title="Garbage collection" />
    </>
  );
}

const OPERATORS = [
  { title: "Operator" },
  { title: "Function" },
  { title: "Busy" },
  { title: "All actors", right: true },
  { title: "Records in", right: true },
  { title: "Calls in flight", right: true },
] as const;

function Operators({ session }: { session: Session }) {
  const known = useComputed(() => session.document.sections.operators.entries().some(([, row]) => isKnown(row.busy)));
  const ids = useIds(() => busiest(session.document.sections.operators.entries()));
  return (
    <Table caption="The busiest operators" columns={OPERATORS}>
      {ids.length === 0 ? (
        <tr>
          <td colSpan={OPERATORS.length} class="quiet">
            {known.value
              ? "No operator takes a measurable share of time."
              : "The shares of operators are not known yet."}
          </td>
        </tr>
      ) : null}
      {ids.map((id) => (
        <OperatorRow key={id} id={id} session={session} />
      ))}
    </Table>
  );
}

function OperatorRow({ id, session }: { id: string; session: Session }) {
  const row = session.document.sections.operators.value(id);
  if (row === undefined) return null;
  return (
    <tr>
      <th scope="row">
        <a href={hashOf("topology", partId("node", id))}>
          <Foreign text={id} />
        </a>
      </th>
      <td>
        <FunctionOf id={id} session={session} />
      </td>
      <td>
        <ShareBar share={row.busy} />
      </td>
      <td class="right">{percent(row.busy_sum)}</td>
      <td class="right">{rate(row.records_per_s)}</td>
      <td class="right">{count(row.calls_in_flight)}</td>
    </tr>
  );
}

/** The first function of an operator, and its place; a dash if it has none, or the topology is not there yet. */
function FunctionOf({ id, session }: { id: string; session: Session }) {
  const topology = session.topology.document.value;
  const box = topology?.picture.boxes.find((each) => each.id === partId("node", id));
  const first = topology && box ? functionsOf(topology, box)[0] : undefined;
  if (first === undefined) return <>–</>;
  const file = first.file?.split("/").at(-1);
  return (
    <>
      <Foreign class="mono" text={first.name} />
      {file === undefined ? null : (
        <>
          {" "}
          <Foreign class="mono place" text={first.line === null ? file : `${file}:${first.line}`} />
        </>
      )}
    </>
  );
}

function Actors({ session, subject }: { session: Session; subject: string | null }) {
  const { actors } = session.document.sections;
  const shares = useIds(() => sharesOf(actors.entries()));
  const mayOperate = session.application.value?.may_operate === true;
  const columns = [
    { title: "Actor" },
    ...(mayOperate ? [{ title: "Stacks" }] : []),
    { title: "State" },
    { title: "Busy" },
    ...shares.map((name) => ({ title: name.replaceAll("_", " ") })),
    ...COMMIT_PAUSES,
  ];
  return (
    <Table caption="Shares of the time of all stream actors" columns={columns}>
      {actors.ids.value.map((id) => (
        <ActorRow key={id} id={id} session={session} shares={shares} mayOperate={mayOperate} current={id === subject} />
      ))}
    </Table>
  );
}

interface ActorRowProperties {
  id: string;
  session: Session;
  shares: readonly string[];
  mayOperate: boolean;
  current: boolean;
}

function ActorRow({ id, session, shares, mayOperate, current }: ActorRowProperties) {
  const actor = session.document.sections.actors.value(id);
  if (actor === undefined) return null;
  return (
    <tr aria-current={current ? "true" : undefined}>
      <th scope="row">
        <ActorLink id={id} />
      </th>
      {mayOperate ? (
        <td>
          <FlameButton session={session} actor={id} />
        </td>
      ) : null}
      <ActorStateCell actor={actor} />
      <td>
        <ShareBar share={actor.busy} />
      </td>
      {shares.map((name) => (
        <td key={name}>
          <ShareBar share={actor.shares[name]} calm={isWait(name)} />
        </td>
      ))}
      <CommitPauseCells actor={actor} />
    </tr>
  );
}

/** Figures by name, one a row, with a column for each actor that has them. */
function Figures({ session, what, title }: { session: Session; what: "rocksdb" | "gc"; title: string }) {
  const { actors } = session.document.sections;
  const rows = actors.entries();
  const names = figuresOf(rows, what);
  if (names.length === 0) return null;
  const columns = [{ title: "Figure" }, ...rows.map(([id]) => ({ title: visible(id, 40), right: true }))];
  return (
    <>
      <h3>{title}</h3>
      <Table caption={title} columns={columns}>
        {names.map((name) => (
          <tr key={name}>
            <th scope="row">{titleOf(name)}</th>
            {rows.map(([id, row]) => (
              <td key={id} class="right">
                {figureText(name, row[what][name])}
              </td>
            ))}
          </tr>
        ))}
      </Table>
    </>
  );
}
