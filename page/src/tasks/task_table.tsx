import { useRef } from "preact/hooks";
import { ShareBar } from "../common/bar";
import { useNear } from "../common/near";
import { count, percent, rate, seconds } from "../common/numbers";
import { Table } from "../common/table";
import { Foreign, visible } from "../common/text";
import type { Restore, Task } from "../server/document";
import { ActorLink } from "../session/actor_link";
import { hashOf } from "../session/route";
import type { Session } from "../session/session";
import { restored } from "./order";

// The figures that tell trouble come first: a phone shows the first five columns.
const COLUMNS = [
  { title: "Task" },
  { title: "Behind", right: true },
  { title: "Lag", right: true },
  { title: "Busy" },
  { title: "State" },
  { title: "Actor" },
  { title: "Records", right: true },
  { title: "Node" },
  { title: "Standbys" },
] as const;

interface TableProperties {
  session: Session;
  ids: readonly string[];
  /** The text by which the tasks were chosen. */
  wanted: string;
  subject: string | null;
}

/** The tasks of these ids, one a row. */
export function TaskTable({ session, ids, wanted, subject }: TableProperties) {
  return (
    <Table caption="All tasks" columns={COLUMNS}>
      {ids.length === 0 ? (
        <tr>
          <td colSpan={COLUMNS.length} class="quiet">
            {wanted.trim() === "" ? "No task." : `No task matches '${visible(wanted, 80)}'.`}
          </td>
        </tr>
      ) : null}
      {ids.map((id) => (
        <TaskRow key={id} id={id} session={session} current={id === subject} />
      ))}
    </Table>
  );
}

/** A task. While it is far from view, it keeps the figures that it had last, so that 200 tasks do not hold up a frame. */
function TaskRow({ id, session, current }: { id: string; session: Session; current: boolean }) {
  const row = useRef<HTMLTableRowElement>(null);
  const shown = useRef<Task | undefined>(undefined);
  if (useNear(row) || shown.current === undefined) shown.current = session.document.sections.tasks.value(id);
  const task = shown.current;
  if (task === undefined) return null;
  return (
    <tr ref={row} aria-current={current ? "true" : undefined}>
      <th scope="row">
        <a href={hashOf("tasks", id)}>{id}</a>
      </th>
      <td class="right">{seconds(task.behind_s)}</td>
      <td class="right">{count(task.lag)}</td>
      <td>
        <ShareBar share={task.busy} />
      </td>
      <td class="reason">
        <TaskState task={task} />
      </td>
      <td>
        <ActorLink id={task.actor_id} />
        {task.moving_to === null ? null : (
          <span class="moving">
            {" "}
            moves to <ActorLink id={task.moving_to} />
          </span>
        )}
      </td>
      <td class="right">{rate(task.records_per_s)}</td>
      <td>{task.node_id === null ? "–" : <Foreign text={short(task.node_id)} />}</td>
      <td>
        {task.standbys.map((standby) => (
          <div key={standby.actor_id}>
            <ActorLink id={standby.actor_id} /> <span class="quiet">lacks {count(standby.lag)}</span>
          </div>
        ))}
      </td>
    </tr>
  );
}

/** Returns the first digits of one of Ray's node ids, which are hex; other names whole. */
export function short(node: string): string {
  return /^[0-9a-f]{40,}$/.test(node) ? `${node.slice(0, 8)}…` : node;
}

/** The state in a word, a restore with its progress, and the reason if the task waits. */
export function TaskState({ task }: { task: Task }) {
  return (
    <>
      <span class="task-state" data-state={task.state}>
        {task.state}
      </span>
      {task.restore === null ? null : <RestoreBar restore={task.restore} />}
      {task.waits_for === null ? null : (
        <>
          {": "}
          <Foreign class="quiet" text={task.waits_for} />
        </>
      )}
    </>
  );
}

function RestoreBar({ restore }: { restore: Restore }) {
  const done = restored(restore);
  return (
    <span class="restore">
      {done === null ? null : <progress aria-label="Restored" value={done} max={1} />}
      <span>
        {done === null ? `${count(restore.remaining)} records left` : percent(done)} · {rate(restore.records_per_s)}
        {restore.seconds_left === null ? "" : ` · ${seconds(restore.seconds_left)} left`}
      </span>
    </span>
  );
}
