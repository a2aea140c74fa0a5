import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Problem } from "../common/dialog";
import { count } from "../common/numbers";
import { Table } from "../common/table";
import { Foreign, visible } from "../common/text";
import type { Rollout } from "../server/document";
import { useRequests } from "../server/requests";
import type { components } from "../server/schema";
import type { Session } from "../session/session";
import { type Change, summary } from "./changes";

type RolloutBody = components["schemas"]["RolloutViewBody"];

/** The changes of the last roll-out, in the words of `penstock plan`. Asked for again with each change of the roll-out. */
export function Difference({ session, rollout }: { session: Session; rollout: Rollout }) {
  const found = useSignal<RolloutBody | null>(null);
  const { problem, send } = useRequests();
  // A return to the old version swaps the two, and a restart of the coordinator forgets them.
  const asked = `${session.program.value} ${rollout.generation} ${rollout.last} ${rollout.phase}`;
  useEffect(() => {
    void send(
      (signal) => session.client.get<RolloutBody>(`${session.path.peek()}rollout`, signal),
      (body) => {
        found.value = body;
      },
      true,
    );
  }, [asked]);
  if (problem.value !== null) return <Problem error={problem.value} />;
  if (found.value === null) return null;
  const { difference, last } = found.value;
  if (difference === null)
    return (
      <p class="quiet">
        {last > 1
          ? "The coordinator was restarted after the last roll-out, and has only one version to show."
          : "No other version of the program was deployed."}
      </p>
    );
  return (
    <>
      <h3>
        From version {difference.old} to version {difference.new}
      </h3>
      <p>{summary(difference.changes)}</p>
      <Changes changes={difference.changes} />
      <h3>Lines of the topology that differ</h3>
      {difference.lines.length > 0 ? (
        <Lines lines={difference.lines} />
      ) : (
        <p class="quiet">None: the topologies are the same.</p>
      )}
      {difference.lines.length === difference.line_count ? null : (
        <p class="quiet">
          These are the first {difference.lines.length} of {count(difference.line_count)} lines.
        </p>
      )}
    </>
  );
}

const COLUMNS = [
  { title: "Of" },
  { title: "Name" },
  { title: "Fate" },
  { title: "Tasks before" },
  { title: "Tasks after" },
  { title: "Note" },
] as const;

function Changes({ changes }: { changes: readonly Change[] }) {
  return (
    <Table caption="Tasks, stores and topics" columns={COLUMNS}>
      {changes.map((change, index) => (
        <tr key={`${change.kind} ${change.name} ${index}`}>
          <td>{change.use === "" ? change.kind : `${visible(change.use, 40)} topic`}</td>
          <th scope="row" class="stored">
            <Foreign text={visible(change.name, 300)} />
          </th>
          <td class="fate" data-grave={change.is_loss}>
            {change.fate}
          </td>
          <td>
            <Foreign text={visible(change.was, 60)} />
          </td>
          <td>
            <Foreign text={visible(change.now, 60)} />
          </td>
          <td class="stored">
            <Foreign text={visible(change.note, 600)} />
          </td>
        </tr>
      ))}
    </Table>
  );
}

/** The lines of a difference. Each begins with - or +, so that the colour is no more than a help. */
function Lines({ lines }: { lines: readonly string[] }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <section class="difference" tabIndex={0} aria-label="Lines of the topology that differ">
      <pre>
        {lines.map((line, index) => (
          <div key={`${index} ${line}`} class={line.startsWith("-") ? "old" : line.startsWith("+") ? "new" : undefined}>
            <Foreign text={visible(line, 400)} />
          </div>
        ))}
      </pre>
    </section>
  );
}
