import { seconds } from "../common/numbers";
import { Fact, Facts } from "../common/panel";
import { Table } from "../common/table";
import { Foreign } from "../common/text";
import type { Rollout as RolloutRow } from "../server/document";
import { natural } from "../server/live_document";
import { ActorLink } from "../session/actor_link";
import type { Session } from "../session/session";
import type { ViewProperties } from "../session/views";
import { Difference } from "./difference";

const COLUMNS = [
  { title: "Version" },
  { title: "Actors", right: true },
  { title: "Tasks", right: true },
  { title: "Names" },
];

/** The versions of the program: the phase of the last roll-out, the actors of each version, and the difference. */
export function Rollout({ session }: ViewProperties) {
  const rollout = session.document.sections.rollout.value("it");
  if (rollout === undefined) return <p class="quiet">The coordinator has not answered yet.</p>;
  return (
    <>
      <div class="rollout">
        <Facts>
          <Fact name="Phase">{rollout.phase}</Fact>
          <Fact name="Version to run">{rollout.generation}</Fact>
          <Fact name="Last version that has worked">{rollout.proven}</Fact>
          <Fact name="Last version that was deployed">{rollout.last}</Fact>
          <Fact name="A new version is watched for">{seconds(rollout.watch_s)}</Fact>
          {rollout.reason === "" ? null : (
            <Fact name="Reason of the return to the old version">
              <Foreign text={rollout.reason} />
            </Fact>
          )}
        </Facts>
      </div>
      <Versions session={session} rollout={rollout} />
      <Difference session={session} rollout={rollout} />
    </>
  );
}

function Versions({ session, rollout }: { session: Session; rollout: RolloutRow }) {
  const versions = Object.entries(rollout.actors).sort(([one], [other]) => natural(other, one));
  return (
    <Table caption="Actors by version" columns={COLUMNS}>
      {versions.map(([version, actors]) => (
        <tr key={version}>
          <th scope="row">{version}</th>
          <td class="right">{actors.length}</td>
          <td class="right">{tasksOf(session, actors)}</td>
          <td class="reason">
            {actors.map((actor) => (
              <span key={actor} class="rollout-actor">
                <ActorLink id={actor} />
              </span>
            ))}
          </td>
        </tr>
      ))}
    </Table>
  );
}

function tasksOf(session: Session, actors: readonly string[]): number {
  const rows = actors.map((actor) => session.document.sections.actors.value(actor));
  return rows.reduce((sum, row) => sum + (row?.tasks.length ?? 0), 0);
}
