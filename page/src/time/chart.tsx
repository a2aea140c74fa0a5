import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { count, short } from "../common/numbers";
import { theme } from "../session/theme";
import { axisText, clocks } from "./series";

const HEIGHT_PX = 130;
/** Least pixels between two times of the axis. A time with its seconds takes 55. */
const ROOM_PX = 60;
const SYNC = "time";

interface Properties {
  title: string;
  /** The figures are whole numbers. */
  counts: boolean;
  /** Seconds since 1970. */
  times: readonly number[];
  values: readonly (number | null)[];
  /** The step that is looked at. */
  step: number;
  onStep: (step: number) => void;
}

/** One series over time. The line at the chosen time, and a click on another time, are those of the slider. */
export function Chart({ title, counts, times, values, step, onStep }: Properties) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const system = useSystemTheme();
  const chosen = useRef({ step, onStep });
  chosen.current = { step, onStep };
  useEffect(() => {
    if (place.current === null) return;
    const made = new uPlot(
      optionsOf(place.current, counts, chosen),
      [[...times], [...values]] as uPlot.AlignedData,
      place.current,
    );
    plot.current = made;
    const observer = new ResizeObserver(([entry]) => {
      if (entry !== undefined) made.setSize({ width: entry.contentRect.width, height: HEIGHT_PX });
    });
    observer.observe(place.current);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
    // The colours are read when the plot is made; its data come with the effect below.
  }, [theme.value, system.value]);
  useEffect(() => {
    plot.current?.setData([[...times], [...values]] as uPlot.AlignedData);
  }, [times, values]);
  useEffect(() => plot.current?.redraw(false), [step]);
  return (
    <figure class="chart">
      <figcaption>
        {title}: <strong>{(counts ? count : short)(values[step] ?? null)}</strong>
      </figcaption>
      <div ref={place} aria-hidden="true" />
    </figure>
  );
}

function optionsOf(
  place: HTMLElement,
  counts: boolean,
  chosen: { current: { step: number; onStep: (step: number) => void } },
): uPlot.Options {
  const colour = (name: string) => resolved(place, name);
  const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--edge"), width: 1 }, ticks: { show: false } };
  return {
    width: place.clientWidth,
    height: HEIGHT_PX,
    legend: { show: false },
    cursor: { sync: { key: SYNC }, y: false, drag: { x: false, y: false } },
    axes: [
      {
        ...axis,
        space: ROOM_PX,
        values: (_, splits, __, ___, apart) => clocks(splits, apart),
      },
      { ...axis, size: 58, values: (_, splits) => splits.map((value) => axisText(value, counts)) },
    ],
    scales: { y: { range: (_, __, highest) => [0, Math.max(1, highest ?? 0) * 1.05] } },
    series: [{}, { stroke: colour("--brand"), fill: colour("--heat-0"), width: 1.5, points: { show: false } }],
    hooks: {
      draw: [(plot) => line(plot, chosen.current.step, colour("--fault"))],
      ready: [
        (plot) =>
          plot.over.addEventListener("click", () => {
            if (plot.cursor.idx !== null && plot.cursor.idx !== undefined) chosen.current.onStep(plot.cursor.idx);
          }),
      ],
    },
  };
}

/** Draws the line at the chosen time. */
function line(plot: uPlot, step: number, colour: string): void {
  const at = plot.data[0][step];
  if (at === undefined) return;
  const x = Math.round(plot.valToPos(at, "x", true));
  plot.ctx.save();
  plot.ctx.strokeStyle = colour;
  plot.ctx.lineWidth = devicePixelRatio;
  plot.ctx.beginPath();
  plot.ctx.moveTo(x, plot.bbox.top);
  plot.ctx.lineTo(x, plot.bbox.top + plot.bbox.height);
  plot.ctx.stroke();
  plot.ctx.restore();
}

/** Returns a colour as a canvas understands it: the variable is one of two, by the theme. */
function resolved(place: HTMLElement, name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  place.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/** Changes if the system changes between light and dark. */
function useSystemTheme() {
  const query = matchMedia("(prefers-color-scheme: dark)");
  const dark = useSignal(query.matches);
  useEffect(() => {
    const change = () => {
      dark.value = query.matches;
    };
    query.addEventListener("change", change);
    return () => query.removeEventListener("change", change);
  }, []);
  return dark;
}
