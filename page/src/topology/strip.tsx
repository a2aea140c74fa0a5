import { useSignal } from "@preact/signals";
import { BEHIND_LEGEND, behindHeat, heatClass } from "../common/heat";
import { Legend } from "../common/legend";
import { isKnown, percent, rate, seconds } from "../common/numbers";
import { visible } from "../common/text";
import type { Task } from "../server/document";
import type { LiveDocument } from "../server/live_document";
import { hashOf } from "../session/route";

/** All tasks as one strip: a cell for each partition of each sub-topology. The more a task is behind, the higher and the
 * hotter its cell. The tabulator key reaches one cell, arrows the others. */
export function Strip({ document, only }: { document: LiveDocument; only?: number }) {
  const groups = grouped(document.sections.tasks.ids.value, only);
  const reached = useSignal("");
  if (groups.length === 0) return null;
  const first = groups[0]?.[1][0] ?? "";
  const current = groups.some(([, tasks]) => tasks.includes(reached.value)) ? reached.value : first;
  return (
    <div class="strip">
      {groups.map(([subtopology, tasks]) => (
        <div key={subtopology} class="strip-row">
          <span class="strip-name">{`Sub-topology ${subtopology}`}</span>
          {/* biome-ignore lint/a11y/noStaticElementInteractions: the keys of its links */}
          <div
            class="cells"
            onKeyDown={step}
            onFocusCapture={(event) => {
              reached.value = (event.target as HTMLElement).dataset.task ?? "";
            }}
          >
            {tasks.map((id) => (
              <Cell key={id} id={id} document={document} reached={id === current} />
            ))}
          </div>
        </div>
      ))}
      <Legend title="Behind" steps={BEHIND_LEGEND} signs="r restores, w waits, ? silent, c created" />
    </div>
  );
}

function grouped(ids: readonly string[], only: number | undefined): [string, string[]][] {
  const groups = new Map<string, string[]>();
  for (const id of ids) {
    const subtopology = id.slice(0, id.indexOf("_"));
    if (only !== undefined && subtopology !== String(only)) continue;
    groups.set(subtopology, [...(groups.get(subtopology) ?? []), id]);
  }
  return [...groups];
}

/** Signs of tasks that do not process, by their state. */
const SIGNS: Partial<Record<Task["state"], string>> = { restoring: "r", waiting: "w", silent: "?", created: "c" };

function signOf(task: Task): string {
  return SIGNS[task.state] ?? (task.waits_for === null ? "" : "w");
}

function Cell({ id, document, reached }: { id: string; document: LiveDocument; reached: boolean }) {
  const task = document.sections.tasks.value(id);
  if (task === undefined) return null;
  const heat = behindHeat(task.behind_s);
  const text = describe(id, task);
  return (
    <a
      class={`cell ${heatClass(heat)}`}
      href={hashOf("tasks", id)}
      tabIndex={reached ? 0 : -1}
      data-task={id}
      title={text}
      aria-label={text}
    >
      <span class={`fill fill-${heat ?? 0}`} />
      <span class="sign" aria-hidden="true">
        {signOf(task)}
      </span>
    </a>
  );
}

function describe(id: string, task: Task): string {
  const behind = isKnown(task.behind_s) ? `${seconds(task.behind_s)} behind` : "time behind not known";
  const actor = task.actor_id === null ? "no actor" : visible(task.actor_id, 80);
  const figures = isKnown(task.records_per_s) ? `, ${rate(task.records_per_s)}, busy ${percent(task.busy)}` : "";
  const waits = task.waits_for === null ? "" : `, waits: ${visible(task.waits_for, 160)}`;
  return `Task ${id}: ${behind}, ${task.state}${figures}, ${actor}${waits}`;
}

const STEPS: Record<string, (cells: HTMLElement[], at: number) => number> = {
  ArrowRight: (_, at) => at + 1,
  ArrowLeft: (_, at) => at - 1,
  ArrowDown: (cells, at) => inNextLine(cells, at, 1),
  ArrowUp: (cells, at) => inNextLine(cells, at, -1),
  Home: () => 0,
  End: (cells) => cells.length - 1,
};

function step(event: KeyboardEvent): void {
  const to = STEPS[event.key];
  const strip = (event.currentTarget as HTMLElement).closest(".strip");
  if (to === undefined || strip === null) return;
  event.preventDefault();
  const cells = [...strip.querySelectorAll<HTMLElement>(".cell")];
  cells[to(cells, cells.indexOf(event.target as HTMLElement))]?.focus();
}

/** Returns the cell above or below, which may be in another sub-topology. */
function inNextLine(cells: HTMLElement[], at: number, direction: 1 | -1): number {
  const here = cells[at]?.getBoundingClientRect();
  if (here === undefined) return at;
  let line: number | undefined;
  let best = at;
  let least = Number.POSITIVE_INFINITY;
  for (let index = at + direction; index >= 0 && index < cells.length; index += direction) {
    const box = (cells[index] as HTMLElement).getBoundingClientRect();
    if ((box.top - here.top) * direction < 2) continue;
    line ??= box.top;
    if (box.top !== line) break;
    const across = Math.abs(box.left - here.left);
    if (across < least) [best, least] = [index, across];
  }
  return best;
}
