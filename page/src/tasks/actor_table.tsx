import { ShareBar } from "../common/bar";
import { count } from "../common/numbers";
import { Table } from "../common/table";
import { Foreign } from "../common/text";
import { ActorLink } from "../session/actor_link";
import type { Session } from "../session/session";
import { ActorStateCell, COMMIT_PAUSES, CommitPauseCells } from "./actor_cells";
import { short } from "./task_table";

const COLUMNS = [
  { title: "Actor" },
  { title: "State" },
  { title: "Node" },
  { title: "Process", right: true },
  { title: "Version", right: true },
  { title: "Tasks", right: true },
  { title: "Standbys", right: true },
  { title: "Busy" },
  ...COMMIT_PAUSES,
] as const;

/** The stream actors, one a row. */
export function ActorTable({ session, subject }: { session: Session; subject: string | null }) {
  const ids = session.document.sections.actors.ids.value;
  return (
    <Table caption="All stream actors" columns={COLUMNS}>
      {ids.length === 0 ? (
        <tr>
          <td colSpan={COLUMNS.length} class="quiet">
            No stream actor.
          </td>
        </tr>
      ) : null}
      {ids.map((id) => (
        <ActorRow key={id} id={id} session={session} current={id === subject} />
      ))}
    </Table>
  );
}

function ActorRow({ id, session, current }: { id: string; session: Session; current: boolean }) {
  const actor = session.document.sections.actors.value(id);
  if (actor === undefined) return null;
  return (
    <tr aria-current={current ? "true" : undefined}>
      <th scope="row">
        <ActorLink id={id} />
      </th>
      <ActorStateCell actor={actor} />
      <td>
        <Foreign text={short(actor.node_id)} />
      </td>
      <td class="right">{actor.pid}</td>
      <td class="right">{actor.generation}</td>
      <td class="right">{count(actor.tasks.length)}</td>
      <td class="right">{count(actor.standbys.length)}</td>
      <td>
        <ShareBar share={actor.busy} />
      </td>
      <CommitPauseCells actor={actor} />
    </tr>
  );
}
