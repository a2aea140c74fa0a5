import { busyHeat, heatClass } from "../common/heat";
import { counted, isKnown, percent, rate, short } from "../common/numbers";
import { visible } from "../common/text";
import type { Operator } from "../server/document";
import type { LiveDocument } from "../server/live_document";
import type { Box, UserFunction } from "../server/topology_document";
import { hashOf } from "../session/route";
import { isOperator, nameOf, noteWithFunction } from "./parts";

/** Half of the height of the ellipse on top of a store. */
const COVER = 5;
const NOTE_PX = 6;
const BESIDE_PX = 12;
const BESIDE_NOTE_PX = 66;

/** Returns the id of a box's element. */
export function elementId(box: Box): string {
  return `part-${box.id}`;
}

interface Properties {
  box: Box;
  functions: readonly UserFunction[];
  document: LiveDocument;
  /** The view in which its panel opens. */
  view: string;
  selected: boolean;
  /** True for the one box that the tabulator key reaches; arrows lead to the others. */
  reached: boolean;
}

/** An operator, a store or a topic, with its figures. A link to its panel. */
export function BoxLink({ box, functions, document, view, selected, reached }: Properties) {
  const operator = isOperator(box) ? document.sections.operators.value(nameOf(box.id)) : undefined;
  const busy = operator?.busy ?? null;
  const heat = isOperator(box) ? heatClass(busyHeat(busy)) : "";
  const leaderless = box.topic === null ? 0 : (document.sections.topics.value(box.topic)?.without_leader.length ?? 0);
  const share = isKnown(busy) ? percent(busy) : "";
  const room = (box.width - (share === "" ? 2 * BESIDE_PX : BESIDE_NOTE_PX)) / NOTE_PX;
  const text = leaderless > 0 ? `no leader: ${leaderless}` : noteWithFunction(box.note, functions, room);
  const note = share === "" || text.length <= room ? text : "";
  return (
    <a
      id={elementId(box)}
      class={`box ${box.kind} ${heat} ${leaderless > 0 ? "leaderless" : ""}`}
      href={hashOf(view, box.id)}
      tabindex={reached ? 0 : -1}
      draggable={false}
      aria-current={selected ? "true" : undefined}
    >
      <title>{visible([box.title, ...figuresOf(operator, share, leaderless)].join(", "))}</title>
      <Shape box={box} />
      {isKnown(busy) ? (
        <rect
          class="busy"
          x={box.x + 4}
          y={box.y + box.height - 6}
          height={3}
          rx={1.5}
          width={Math.max(0, Math.min(1, busy)) * (box.width - 8)}
        />
      ) : null}
      <Texts box={box} note={note} share={share} />
    </a>
  );
}

function figuresOf(operator: Operator | undefined, share: string, leaderless: number): string[] {
  return [
    ...(share === "" ? [] : [`${share} busy`]),
    ...(isKnown(operator?.records_per_s) ? [`${short(operator.records_per_s)} records/s`] : []),
    ...(leaderless > 0 ? [`${counted(leaderless, "partition")} without a leader`] : []),
  ];
}

function Shape({ box }: { box: Box }) {
  const { x, y, width, height, kind } = box;
  if (kind !== "store" && kind !== "global-store") {
    const radius = kind === "topic" || kind === "repartition" ? height / 2 : 5;
    return <rect class="shape" x={x} y={y} width={width} height={height} rx={radius} />;
  }
  const arc = `a${width / 2} ${COVER} 0 0`;
  const top = y + COVER;
  const side = height - 2 * COVER;
  const body = `M${x} ${top}${arc} 1 ${width} 0v${side}${arc} 1 ${-width} 0z`;
  return <path class="shape" d={`${body}M${x} ${top}${arc} 0 ${width} 0`} />;
}

/** Two lines: the name, and the note. The share has the right end of the second line; if there is no room for both, the
 * note is left out, which the panel also has. */
function Texts({ box, note, share }: { box: Box; note: string; share: string }) {
  const middle = box.x + box.width / 2;
  const drop = box.kind === "store" || box.kind === "global-store" ? COVER + 1 : 0;
  const y = box.y + 32 + drop;
  return (
    <>
      <text class="name" x={middle} y={box.y + 18 + drop}>
        {visible(box.name)}
      </text>
      {note === "" ? null : (
        <text class={share === "" ? "note" : "note begin"} x={share === "" ? middle : box.x + 12} y={y}>
          {visible(note)}
        </text>
      )}
      {share === "" ? null : (
        <text class="figure end" x={box.x + box.width - 12} y={y}>
          {share}
        </text>
      )}
    </>
  );
}

/** The records per second of a line, beside its end. */
export function RateText({ x, y, value }: { x: number; y: number; value: number | null }) {
  return isKnown(value) ? (
    <text class="rate" x={x + 6} y={y - 11}>
      {rate(value)}
    </text>
  ) : null;
}
