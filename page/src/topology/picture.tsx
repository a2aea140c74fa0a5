import { computed, useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { counted, isKnown, seconds } from "../common/numbers";
import { visible } from "../common/text";
import type { Task } from "../server/document";
import type { LiveDocument } from "../server/live_document";
import type { Box, Lane, Line, Picture, TopologyDocument } from "../server/topology_document";
import { BoxLink, elementId, RateText } from "./box";
import { endOf, functionsOf, type RateOf, ratesOfLines, subtopologyOf } from "./parts";
import { Stage } from "./stage";

interface Properties {
  topology: TopologyDocument;
  document: LiveDocument;
  /** The view in which a click shows a part. */
  view: string;
  selected: Box | undefined;
  /** The part with which the picture begins; without one it begins at its top. */
  begin: Box | undefined;
}

/** The topology as `penstock describe --format svg` draws it, with figures. */
export function TopologyPicture({ topology, document, view, selected, begin }: Properties) {
  const { picture } = topology;
  const svg = useRef<SVGSVGElement>(null);
  const content = useRef<SVGGElement>(null);
  const stage = useRef<Stage | null>(null);
  const reached = useSignal(picture.boxes[0]?.id ?? "");
  const rates = useMemo(() => ratesOfLines(picture), [picture]);
  // Before the browser draws: an effect would come after the first frame.
  useLayoutEffect(() => {
    if (svg.current === null || content.current === null) return;
    const made = new Stage(svg.current, content.current, picture);
    stage.current = made;
    const first = selected ?? begin;
    if (first !== undefined) made.approach(first);
    return () => made.close();
    // `selected` and `begin` are left out: the picture begins once.
  }, [picture]);
  useEffect(() => {
    if (selected === undefined) return;
    reached.value = selected.id;
    // The panel has taken its room by then.
    const frame = requestAnimationFrame(() => stage.current?.reveal(selected));
    return () => cancelAnimationFrame(frame);
  }, [selected, reached]);
  return (
    <div class="stage">
      <svg
        ref={svg}
        class="picture"
        role="application"
        tabindex={0}
        aria-label={visible(`${picture.title}. Arrows move it, plus and minus enlarge it, 0 shows all of it.`)}
        onKeyDown={(event) => walk(event, picture, reached.value)}
        onFocusCapture={(event) => {
          const box = boxAt(picture, event.target);
          if (box === undefined) return;
          reached.value = box.id;
          if ((event.target as Element).matches(":focus-visible")) stage.current?.reveal(box);
        }}
      >
        <defs>
          <marker
            id="arrow"
            viewBox="0 0 8 8"
            refX="7"
            refY="4"
            markerUnits="userSpaceOnUse"
            markerWidth="9"
            markerHeight="9"
            orient="auto"
          >
            <path class="head" d="M0 0L8 4L0 8z" />
          </marker>
        </defs>
        <g ref={content}>
          {picture.lanes.map((lane) => (
            <LanePart key={lane.id} lane={lane} />
          ))}
          {picture.lines.map((line) => (
            <LinePart key={line.id} line={line} document={document} rate={rates.get(line.id)} />
          ))}
          {picture.lanes.map((lane) => (
            <LaneNote key={lane.id} lane={lane} document={document} />
          ))}
          {picture.boxes.map((box) => (
            <BoxLink
              key={box.id}
              box={box}
              functions={functionsOf(topology, box)}
              document={document}
              view={view}
              selected={box === selected}
              reached={box.id === reached.value}
            />
          ))}
        </g>
      </svg>
      <StageButtons stage={stage} />
    </div>
  );
}

function StageButtons({ stage }: { stage: RefObject<Stage | null> }) {
  return (
    <fieldset class="stage-buttons" aria-label="Size of the picture">
      <button type="button" onClick={() => stage.current?.zoom(1.25)} aria-label="Larger">
        +
      </button>
      <button type="button" onClick={() => stage.current?.zoom(0.8)} aria-label="Smaller">
        −
      </button>
      <button type="button" onClick={() => stage.current?.fit()}>
        Fit
      </button>
    </fieldset>
  );
}

/** A sub-topology. */
function LanePart({ lane }: { lane: Lane }) {
  return (
    <g class={lane.is_global ? "lane global" : "lane"}>
      <rect class="shape" x={lane.x} y={lane.y} width={lane.width} height={lane.height} rx={8} />
      <text class="name begin" x={lane.x + lane.name_x} y={lane.y + 21}>
        {visible(lane.name)}
      </text>
    </g>
  );
}

/** The number of tasks of a sub-topology, and the largest time that one of them is behind. At the lower end, since lines
 * enter a lane at its upper one; in its corners, since lines leave it between them. */
function LaneNote({ lane, document }: { lane: Lane; document: LiveDocument }) {
  // useComputed() would keep the document that was there at first.
  const tasks = useMemo(() => computed(() => tasksOf(lane, document)), [lane, document]);
  const number = useMemo(
    () => computed(() => (tasks.value.length === 0 ? "" : counted(tasks.value.length, "task"))),
    [tasks],
  );
  const behind = useMemo(() => computed(() => furthest(tasks.value)), [tasks]);
  const y = lane.y + lane.height - 6;
  return (
    <g class="lane-note">
      <text class="begin" x={lane.x + 10} y={y}>
        {number}
      </text>
      <text class="end" x={lane.x + lane.width - 10} y={y}>
        {behind}
      </text>
    </g>
  );
}

function tasksOf(lane: Lane, document: LiveDocument): Task[] {
  const number = subtopologyOf(lane.id);
  return document.sections.tasks.entries().flatMap(([, task]) => (task.subtopology === number ? [task] : []));
}

function furthest(tasks: readonly Task[]): string {
  const behind = tasks.map((task) => task.behind_s).filter(isKnown);
  return behind.length === 0 ? "" : `up to ${seconds(Math.max(...behind))} behind`;
}

function LinePart({ line, document, rate }: { line: Line; document: LiveDocument; rate: RateOf | undefined }) {
  const end = endOf(line.path);
  const value = rate === undefined ? null : rateNow(rate, document);
  const width = isKnown(value) && value > 0 ? Math.min(4, Math.max(0, Math.floor(Math.log10(value)))) : 0;
  return (
    <g class={`line width-${width}`}>
      <path
        class={line.to_store ? "link to-store" : "link"}
        d={line.path}
        marker-end={line.to_store ? undefined : "url(#arrow)"}
      />
      <RateText x={end.x} y={end.y} value={value} />
    </g>
  );
}

function rateNow(rate: RateOf, { sections }: LiveDocument): number | null {
  if (rate.section === "operators") return sections.operators.value(rate.id)?.records_per_s ?? null;
  return sections.topics.value(rate.id)?.[rate.figure] ?? null;
}

function boxAt(picture: Picture, target: EventTarget | null): Box | undefined {
  const id = target instanceof Element ? target.closest("a")?.id : undefined;
  return id === undefined ? undefined : picture.boxes.find((box) => elementId(box) === id);
}

const DIRECTIONS: Record<string, readonly [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

/** Moves the focus from a box to the next one in the direction of an arrow. */
function walk(event: KeyboardEvent, picture: Picture, from: string): void {
  const direction = DIRECTIONS[event.key];
  const here = boxAt(picture, event.target);
  if (direction === undefined || here === undefined || here.id !== from) return;
  event.preventDefault();
  const next = nextBox(picture.boxes, here, direction);
  if (next !== undefined) document.getElementById(elementId(next))?.focus({ preventScroll: true });
}

/** Returns the nearest box in a direction; what is beside the way counts three times. */
export function nextBox(boxes: readonly Box[], here: Box, [x, y]: readonly [number, number]): Box | undefined {
  let best: Box | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const box of boxes) {
    const across = box.x + box.width / 2 - (here.x + here.width / 2);
    const down = box.y + box.height / 2 - (here.y + here.height / 2);
    const ahead = across * x + down * y;
    const cost = ahead + 3 * Math.abs(x === 0 ? across : down);
    if (box !== here && ahead > 0 && cost < least) [best, least] = [box, cost];
  }
  return best;
}
