import { ShareBar } from "../common/bar";
import { count, milliseconds } from "../common/numbers";
import { Fact, Facts, Panel } from "../common/panel";
import { Foreign, visible } from "../common/text";
import type { Actor } from "../server/document";
import { hashOf } from "../session/route";
import type { Session } from "../session/session";
import { RestartActor } from "./operations";
import { isWait } from "./order";

/** One stream actor: what it is doing with its time, and its tasks. */
export function ActorPanel(properties: { id: string; actor: Actor; session: Session; onClose: () => void }) {
  const { id, actor, session, onClose } = properties;
  return (
    <Panel title={id} kind="Stream actor" onClose={onClose}>
      {actor.error === null ? null : (
        <pre class="error">
          <Foreign text={actor.error} />
        </pre>
      )}
      <Facts>
        <Fact name="State">{visible(actor.state)}</Fact>
        <Fact name="Node">
          <Foreign class="mono" text={actor.node_id} />
        </Fact>
        <Fact name="Process id">{actor.pid}</Fact>
        <Fact name="Version of the program">{actor.generation}</Fact>
        <Fact name="Commits">{count(actor.commits)}</Fact>
        <Fact name="Pause of a commit, median of the last minute">{milliseconds(actor.commit_pause_p50_ms)}</Fact>
        <Fact name="the longest">{milliseconds(actor.commit_pause_max_ms)}</Fact>
      </Facts>
      <RestartActor session={session} actor={id} />
      <h4>Shares of its time</h4>
      <Facts>
        {Object.entries(actor.shares).map(([name, share]) => (
          <Fact key={name} name={name.replaceAll("_", " ")}>
            <ShareBar share={share} calm={isWait(name)} />
          </Fact>
        ))}
      </Facts>
      <TaskLinks title="Tasks" ids={actor.tasks} />
      <TaskLinks title="Standbys of tasks" ids={actor.standbys} />
    </Panel>
  );
}

function TaskLinks({ title, ids }: { title: string; ids: readonly string[] }) {
  if (ids.length === 0) return null;
  return (
    <>
      <h4>{title}</h4>
      <p class="task-links">
        {ids.map((id) => (
          <a key={id} href={hashOf("tasks", id)}>
            {id}
          </a>
        ))}
      </p>
    </>
  );
}
