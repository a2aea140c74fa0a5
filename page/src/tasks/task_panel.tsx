import { ShareBar } from "../common/bar";
import { count, rate, seconds } from "../common/numbers";
import { Fact, Facts, Panel } from "../common/panel";
import { Foreign } from "../common/text";
import type { Task } from "../server/document";
import { ActorLink } from "../session/actor_link";
import { hashOf } from "../session/route";
import type { Session } from "../session/session";
import { MoveTask } from "./operations";
import { TaskState } from "./task_table";

/** One task: its figures, its partitions, its standbys. */
export function TaskPanel(properties: { id: string; task: Task; session: Session; onClose: () => void }) {
  const { id, task, session, onClose } = properties;
  return (
    <Panel
      title={`Task ${id}`}
      kind={`Partition ${task.partition} of sub-topology ${task.subtopology}`}
      onClose={onClose}
    >
      <Facts>
        <Fact name="State">
          <TaskState task={task} />
        </Fact>
        <Fact name="Actor">
          <ActorLink id={task.actor_id} />
        </Fact>
        {task.moving_to === null ? null : (
          <Fact name="Moves to">
            <ActorLink id={task.moving_to} />
          </Fact>
        )}
        <Fact name="Node">{task.node_id === null ? "–" : <Foreign class="mono" text={task.node_id} />}</Fact>
        <Fact name="Behind">{seconds(task.behind_s)}</Fact>
        <Fact name="Lag">{count(task.lag)}</Fact>
        <Fact name="Records">{rate(task.records_per_s)}</Fact>
        <Fact name="Busy">
          <ShareBar share={task.busy} />
        </Fact>
        <Fact name="Dropped records">{count(task.dropped_records)}</Fact>
      </Facts>
      <MoveTask session={session} task={id} from={task.actor_id} />
      <h4>Partitions</h4>
      {task.topics.map(({ topic, partition, lag, committed, has_leader }) => (
        <Facts key={`${topic}-${partition}`}>
          <Fact name="Topic">
            <a href={hashOf("topology", topic)}>
              <Foreign text={topic} />
            </a>{" "}
            {partition}
          </Fact>
          {has_leader ? null : <Fact name="Leader">none: nothing reads or writes it</Fact>}
          <Fact name="Committed offset">{count(committed)}</Fact>
          <Fact name="Lag">{count(lag)}</Fact>
          <Fact name="Records">
            <a href={hashOf("records", `${topic}/${partition}`)}>its keys and records</a>
          </Fact>
        </Facts>
      ))}
      {task.standbys.length === 0 ? null : <h4>Standbys</h4>}
      <Facts>
        {task.standbys.map((standby) => (
          <Fact key={standby.actor_id} name={`lacks ${count(standby.lag)} offsets`}>
            <ActorLink id={standby.actor_id} />
          </Fact>
        ))}
      </Facts>
    </Panel>
  );
}
