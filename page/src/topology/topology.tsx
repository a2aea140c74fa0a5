import { BUSY_LEGEND } from "../common/heat";
import { Legend } from "../common/legend";
import { Foreign, visible } from "../common/text";
import type { LiveDocument } from "../server/live_document";
import { useTopology } from "../server/topology_source";
import { hashOf } from "../session/route";
import type { Session } from "../session/session";
import type { ViewProperties } from "../session/views";
import { PartPanel } from "./part_panel";
import { boxOf } from "./parts";
import { TopologyPicture } from "./picture";
import { Strip } from "./strip";

/** The picture of the topology, and the strip of all tasks. */
export function Topology({ session, subject }: ViewProperties) {
  useTopology(session);
  return (
    <>
      <Picture session={session} subject={subject} document={session.document} view="topology" />
      <h3>Tasks by time behind</h3>
      <Strip document={session.document} />
    </>
  );
}

interface PictureProperties {
  session: Session;
  /** The part that is looked at. */
  subject: string | null;
  /** The figures: those of now, or of another time. */
  document: LiveDocument;
  /** The view in which the picture is. */
  view: string;
}

/** The picture of the topology with the panel of the part that is looked at, and its legend. */
export function Picture({ session, subject, document, view }: PictureProperties) {
  const topology = session.topology.document.value;
  if (topology === null) {
    const { problem } = session.topology;
    return (
      <p class="quiet" role="status">
        {problem.value === "" ? "Asking for the topology …" : problem.value}
      </p>
    );
  }
  const box = subject === null ? undefined : boxOf(topology.picture, subject);
  // The part that the worst finding names is where the picture begins.
  const finding = document.sections.findings.value("0");
  const named = finding?.view === "topology" ? finding.subject : null;
  const worst = named === null || named === undefined ? undefined : boxOf(topology.picture, named);
  return (
    <>
      {subject !== null && box === undefined ? (
        <p class="quiet" role="status">
          The topology has no part <Foreign text={visible(subject, 80)} />.
        </p>
      ) : null}
      <div class={box === undefined ? "beside" : "beside open"}>
        <TopologyPicture
          key={topology.fingerprint}
          topology={topology}
          document={document}
          view={view}
          selected={box}
          begin={worst}
        />
        {box === undefined ? null : (
          <PartPanel
            box={box}
            topology={topology}
            session={session}
            document={document}
            view={view}
            onClose={() => location.assign(hashOf(view))}
          />
        )}
      </div>
      <Legend title="Busy share of an actor" steps={BUSY_LEGEND} />
    </>
  );
}
