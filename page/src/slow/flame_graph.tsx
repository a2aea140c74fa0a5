import { useSignal } from "@preact/signals";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { count, percent } from "../common/numbers";
import { Foreign, visible } from "../common/text";
import { boxesOf, type FlameBox, type FlameNode, type Matches, mostOf, neighbour, OWNERS } from "./flame_tree";

const ROW_PX = 21;
const BESIDE_PX = 5;
/** Narrower boxes have no room for the beginning of a name. */
const LEAST_NAMED_PX = 28;
const LONGEST_NAME = 200;
/** Narrower boxes are not drawn. */
const LEAST_PX = 1;

/** Functions as boxes, as wide as the share of the samples that they are in, under those that call them. */
export function FlameGraph({ top, matches }: { top: FlameNode; matches: Matches | null }) {
  const zoomed = useSignal(top);
  const reached = useSignal(top);
  const looked = useSignal<FlameNode | null>(null);
  const [place, width] = useWidth();
  const svg = useRef<SVGSVGElement>(null);
  const boxes = useMemo(() => boxesOf(top, zoomed.value, LEAST_PX / width), [top, zoomed.value, width]);
  const rows = Math.max(...boxes.map(({ node }) => node.depth)) - top.depth + 1;
  const zoom = (node: FlameNode) => {
    zoomed.value = node;
    reached.value = node;
  };
  // The box of the tabulator key is one that is drawn.
  const stop = boxes.some(({ node }) => node === reached.value) ? reached.value : zoomed.value;
  function keys(event: KeyboardEvent) {
    const next = event.key === "Escape" ? undefined : neighbour(boxes, stop, event.key);
    if (event.key === "Escape" || event.key === "Home") zoom(top);
    else if (event.key === "Enter" || event.key === " ") zoom(stop);
    else if (next !== undefined) reached.value = next;
    else if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
    const to = reached.value.id;
    requestAnimationFrame(() => svg.current?.querySelector<SVGElement>(`[data-node="${to}"]`)?.focus());
  }
  return (
    <div class="flame-graph" ref={place}>
      <p class="flame-looked" aria-hidden="true">
        <Looked node={looked.value ?? zoomed.value} top={top} />
      </p>
      <svg
        ref={svg}
        role="application"
        width={width}
        height={rows * ROW_PX}
        aria-label="Flame graph. Arrows lead from function to function, Enter zooms into one, Escape shows all again."
        onKeyDown={keys}
        onPointerLeave={() => {
          looked.value = null;
        }}
      >
        {boxes.map((box) => (
          <Box
            key={box.node.id}
            box={box}
            y={(box.node.depth - top.depth) * ROW_PX}
            width={width}
            text={described(box.node, top)}
            reached={box.node === stop}
            around={box.node.depth < zoomed.value.depth}
            matches={matches === null ? null : matches.nodes.has(box.node)}
            onLook={() => {
              looked.value = box.node;
            }}
            onReach={() => {
              looked.value = box.node;
              reached.value = box.node;
            }}
            onZoom={() => zoom(box.node)}
          />
        ))}
      </svg>
      <div class="bar">
        <button type="button" disabled={zoomed.value === top} onClick={() => zoom(top)}>
          Show all
        </button>
        <span class="quiet">A click on a function zooms into it.</span>
      </div>
    </div>
  );
}

interface BoxProperties {
  box: FlameBox;
  y: number;
  width: number;
  text: string;
  reached: boolean;
  /** True for the functions that call the one that is zoomed into. */
  around: boolean;
  /** Null while nothing is searched for. */
  matches: boolean | null;
  onLook: () => void;
  onReach: () => void;
  onZoom: () => void;
}

function Box({ box, y, width, text, reached, around, matches, onLook, onReach, onZoom }: BoxProperties) {
  const wide = Math.max(LEAST_PX, box.width * width - 1);
  const found = matches === null ? "" : matches ? "found" : "not-found";
  return (
    // biome-ignore lint/a11y/useSemanticElements: SVG has no buttons
    <g
      class={["flame-box", `of-${box.node.owner}`, around ? "around" : "", found]
        .filter((each) => each !== "")
        .join(" ")}
      data-node={box.node.id}
      role="button"
      tabindex={reached ? 0 : -1}
      aria-label={text}
      onClick={onZoom}
      onPointerEnter={onLook}
      onFocus={onReach}
    >
      <rect x={box.x * width} y={y} width={wide} height={ROW_PX - 1} rx={2} />
      {box.node.owner === "program" ? (
        <rect class="own-edge" x={box.x * width} y={y + ROW_PX - 4} width={wide} height={3} />
      ) : null}
      {wide < LEAST_NAMED_PX ? null : (
        // It cuts the name off where the box ends.
        <svg aria-hidden="true" x={box.x * width} y={y} width={wide - BESIDE_PX} height={ROW_PX}>
          <text x={BESIDE_PX} y={14}>
            {visible(box.node.name, LONGEST_NAME)}
          </text>
        </svg>
      )}
    </g>
  );
}

/** Returns a function with its place and its shares, as a text. */
function described(node: FlameNode, top: FlameNode): string {
  const place = node.file === "" ? "" : `, ${visible(node.file, 200)}:${mostOf(node.lines).join(", ")}`;
  const owner = OWNERS[node.owner] === "" ? "" : `, code of ${OWNERS[node.owner]}`;
  const own = node.own === 0 ? "" : `, itself ${percent(node.own / top.total)}`;
  return `${visible(node.name, LONGEST_NAME)}${place}: ${percent(node.total / top.total)} of the samples${own}${owner}`;
}

function Looked({ node, top }: { node: FlameNode; top: FlameNode }) {
  return (
    <>
      <Foreign class="mono" text={visible(node.name, LONGEST_NAME)} />{" "}
      {node.file === "" ? null : (
        <Foreign class="mono place" text={`${visible(node.file, 200)}:${mostOf(node.lines).join(", ")}`} />
      )}{" "}
      {percent(node.total / top.total)}, {count(node.total)} of {count(top.total)} samples
      {node.own === 0 ? "" : `, itself ${percent(node.own / top.total)}`}
      {OWNERS[node.owner] === "" ? "" : `, code of ${OWNERS[node.owner]}`}
    </>
  );
}

/** Returns a place, and its width in pixels. */
function useWidth() {
  const place = useRef<HTMLDivElement>(null);
  const width = useSignal(300);
  useLayoutEffect(() => {
    if (place.current === null) return;
    width.value = Math.max(1, place.current.clientWidth);
    const observer = new ResizeObserver(([entry]) => {
      if (entry !== undefined) width.value = Math.max(1, Math.floor(entry.contentRect.width));
    });
    observer.observe(place.current);
    return () => observer.disconnect();
  }, []);
  return [place, width.value] as const;
}
