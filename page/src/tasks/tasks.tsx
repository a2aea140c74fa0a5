import { useComputed, useSignal } from "@preact/signals";
import { hashOf } from "../shell/route";
import type { ViewProperties } from "../shell/views";
import { ActorPanel } from "./actor_panel";
import { ActorTable } from "./actor_table";
import { Operations } from "./operations";
import { chosen, SORTS, type SortBy } from "./order";
import { TaskPanel } from "./task_panel";
import { TaskTable } from "./task_table";

/** All tasks and actors, and with the scope `operate` the operations on them. */
export function Tasks({ session, subject }: ViewProperties) {
  const { tasks, actors } = session.document.sections;
  const text = useSignal("");
  const by = useSignal<SortBy>("task");
  // As a text, so that the table is drawn again if the order changes, and not with each figure.
  const order = useComputed(() => chosen(tasks.entries(), text.value, by.value).join("\n"));
  const ids = order.value === "" ? [] : order.value.split("\n");
  const task = subject === null ? undefined : tasks.value(subject);
  const actor = subject === null ? undefined : actors.value(subject);
  const close = () => location.assign(hashOf("tasks"));
  return (
    <div class={task === undefined && actor === undefined ? "tasks-view" : "tasks-view open"}>
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
        {subject !== null && task === undefined && actor === undefined ? (
          <p class="quiet" role="status">
            There is no task and no actor <bdi>{subject}</bdi> now.
          </p>
        ) : null}
        <TaskTable session={session} ids={ids} subject={subject} />
        <h3>Stream actors</h3>
        <ActorTable session={session} subject={subject} />
      </div>
      {subject !== null && task !== undefined ? (
        <TaskPanel id={subject} task={task} session={session} onClose={close} />
      ) : null}
      {subject !== null && actor !== undefined ? (
        <ActorPanel id={subject} actor={actor} session={session} onClose={close} />
      ) : null}
    </div>
  );
}
