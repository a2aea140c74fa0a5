import { moment } from "../common/numbers";
import { Table } from "../common/table";
import { Foreign, visible } from "../common/text";
import { hashOf } from "../shell/route";
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
export function Events({ events, now }: { events: readonly HistoryEvent[]; now: number }) {
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
            <Of id={event.task_id} />
            {event.task_id !== null && event.actor_id !== null ? " on " : null}
            <Of id={event.actor_id} />
          </td>
          <td>{event.page === null ? "–" : <span class="mono">docs/{visible(event.page, 120)}</span>}</td>
        </tr>
      ))}
    </Table>
  );
}

function Of({ id }: { id: string | null }) {
  return id === null ? null : (
    <a href={hashOf("tasks", id)}>
      <Foreign text={id} />
    </a>
  );
}
