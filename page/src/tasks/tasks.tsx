import { useSignal } from "@preact/signals";
import { useIds } from "../common/ids";
import { Foreign, visible } from "../common/text";
import { hashOf } from "../session/route";
import type { Session } from "../session/session";
import type { ViewProperties } from "../session/views";
import { ActorPanel } from "./actor_panel";
import { ActorTable } from "./actor_table";
import { Operations } from "./operations";
import { chosen, SORTS, type SortBy } from "./order";
import { TaskPanel } from "./task_panel";
import { TaskTable } from "./task_table";

/** All tasks and actors, and with the scope `operate` the operations on them. */
export function Tasks({ session, subject }: ViewProperties) {
  const { tasks } = session.document.sections;
  const text = useSignal("");
  const by = useSignal<SortBy>("task");
  const ids = useIds(() => chosen(tasks.entries(), text.value, by.value));
  const found = kindOf(session, subject);
  return (
    <div class={found === "none" ? "tasks-view" : "tasks-view open"}>
      <div>
        <div class="bar">
          <label>
            Show
            <input
              type="search"
              placeholder="task, actor, node or state"
              value={text.value}
              onInput={(event) => {
                text.value = event.currentTarget.value;
              }}
            />
          </label>
          <label>
            Sort by
            <select
              value={by.value}
              onChange={(event) => {
                by.value = event.currentTarget.value as SortBy;
              }}
            >
              {SORTS.map(([name, title]) => (
                <option key={name} value={name}>
                  {title}
                </option>
              ))}
            </select>
          </label>
          <span class="grow" />
          <Operations session={session} />
        </div>
        {subject !== null && found === "none" ? (
          <p class="quiet" role="status">
            There is no task and no actor <Foreign text={visible(subject, 80)} /> now.
          </p>
        ) : null}
        <TaskTable session={session} ids={ids} wanted={text.value} subject={subject} />
        <h3>Stream actors</h3>
        <ActorTable session={session} subject={subject} />
      </div>
      {subject === null || found === "none" ? null : <PartPanel session={session} subject={subject} />}
    </div>
  );
}

function kindOf({ document }: Session, subject: string | null): "task" | "actor" | "none" {
  if (subject === null) return "none";
  if (document.sections.tasks.ids.value.includes(subject)) return "task";
  return document.sections.actors.ids.value.includes(subject) ? "actor" : "none";
}

/** The panel of a task or an actor. It alone is drawn again with their figures, and not the tables. */
function PartPanel({ session, subject }: { session: Session; subject: string }) {
  const task = session.document.sections.tasks.value(subject);
  const actor = session.document.sections.actors.value(subject);
  const close = () => location.assign(hashOf("tasks"));
  if (task !== undefined) return <TaskPanel id={subject} task={task} session={session} onClose={close} />;
  return actor === undefined ? null : <ActorPanel id={subject} actor={actor} session={session} onClose={close} />;
}
