import { moment } from "../common/numbers";
import { Table } from "../common/table";
import { Foreign, visible } from "../common/text";
import { hashOf } from "../session/route";
import type { Session } from "../session/session";
import type { HistoryEvent } from "./series";

const COLUMNS = [
  { title: "Time" },
  { title: "Level" },
  { title: "Kind" },
  { title: "Event" },
  { title: "Of" },
  { title: "Explained in" },
] as const;

/** Events of the last hour, the newest first. */
export function Events(properties: { session: Session; events: readonly HistoryEvent[]; now: number }) {
  const { session, events, now } = properties;
  const tasks = session.document.sections.tasks.ids.value;
  const actors = session.document.sections.actors.ids.value;
  return (
    <Table caption="Events, errors and warnings" columns={COLUMNS}>
      {events.length === 0 ? (
        <tr>
          <td colSpan={COLUMNS.length} class="quiet">
            Nothing has happened.
          </td>
        </tr>
      ) : null}
      {events.toReversed().map((event, index) => (
        <tr key={`${event.at_ms} ${index}`}>
          <td>
            {moment(event.at_ms, now)}
            {event.times > 1 ? (
              <div class="quiet">
                {event.times} times until {moment(event.until_ms, now)}
              </div>
            ) : null}
          </td>
          <td class="event-level" data-level={event.level}>
            {event.level}
          </td>
          <td>{event.kind}</td>
          <td class="stored">
            <Foreign text={event.sentence} />
          </td>
          <td>
            <Of id={event.task_id} known={tasks} />
            {event.task_id !== null && event.actor_id !== null ? " on " : null}
            <Of id={event.actor_id} known={actors} />
          </td>
          <td>{event.page === null ? "–" : <span class="mono">docs/{visible(event.page, 120)}</span>}</td>
        </tr>
      ))}
    </Table>
  );
}

/** A task or an actor, with the way to it if it is still there. The coordinator, too, has events, but no panel. */
function Of({ id, known }: { id: string | null; known: readonly string[] }) {
  if (id === null) return null;
  const name = <Foreign text={id} />;
  return known.includes(id) ? <a href={hashOf("tasks", id)}>{name}</a> : name;
}
