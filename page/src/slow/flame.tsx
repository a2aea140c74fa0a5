import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { ShareBar } from "../common/bar";
import { Problem } from "../common/dialog";
import { count, counted, moment, percent } from "../common/numbers";
import { Table } from "../common/table";
import { Foreign, visible } from "../common/text";
import { FLAME_S, type FlameState } from "../server/flame_source";
import type { Session } from "../session/session";
import { FlameGraph } from "./flame_graph";
import { type FlameNode, functionsUnder, matchesUnder, OWNERS, ownersUnder, TASKS_THREAD, treeOf } from "./flame_tree";

const MOST_FUNCTIONS = 20;

/** A button that has an actor looked at. Absent without the scope `operate`. */
export function FlameButton({ session, actor }: { session: Session; actor: string }) {
  if (session.application.value?.may_operate !== true) return null;
  const taking = session.flames.state.value.name === "taking";
  return (
    <button type="button" disabled={taking} onClick={() => void session.flames.take(actor)}>
      Flame graph<span class="unseen"> of {visible(actor, 80)}</span>
    </button>
  );
}

/** The flame graph that was asked for last, or the way to it. */
export function Flame({ session }: { session: Session }) {
  const state = session.flames.state.value;
  return (
    <section class="flame" aria-label="Flame graph">
      <p class="unseen" role="status">
        {spoken(state)}
      </p>
      {state.name === "taking" ? <Taking actor={state.actor} began_ms={state.began_ms} /> : null}
      {state.name === "refused" ? (
        <>
          <Title actor={state.actor} />
          <Problem error={state.error} />
        </>
      ) : null}
      {state.name === "taken" ? <Taken key={state.at_ms} session={session} taken={state} /> : null}
    </section>
  );
}

function spoken(state: FlameState): string {
  if (state.name === "taking") return `Looking at ${visible(state.actor, 80)} for ${FLAME_S} seconds.`;
  if (state.name === "taken") return `The flame graph of ${visible(state.actor, 80)} is there.`;
  return "";
}

function Title({ actor }: { actor: string }) {
  return (
    <h3>
      Flame graph of <Foreign text={visible(actor, 200)} />
    </h3>
  );
}

function Taking({ actor, began_ms }: { actor: string; began_ms: number }) {
  const now = useSignal(Date.now());
  useEffect(() => {
    const timer = setInterval(() => {
      now.value = Date.now();
    }, 200);
    return () => clearInterval(timer);
  }, []);
  const passed = Math.max(0, Math.min(FLAME_S, (now.value - began_ms) / 1_000));
  return (
    <>
      <Title actor={actor} />
      <p class="taking">
        <progress aria-label="Time of the samples" max={FLAME_S} value={passed} />{" "}
        {passed < FLAME_S
          ? `Sampling the threads of the actor's process: ${Math.floor(passed)} of ${FLAME_S} s`
          : "Waiting for the samples …"}
      </p>
    </>
  );
}

function Taken({ session, taken }: { session: Session; taken: Extract<FlameState, { name: "taken" }> }) {
  const { body, actor, at_ms } = taken;
  const topology = session.topology.document.value;
  const tree = useMemo(() => {
    const functions = Object.values(topology?.operators ?? {}).flatMap((operator) => operator.functions);
    return treeOf(body, [...new Set(functions.flatMap(({ file }) => file ?? []))]);
  }, [body, topology]);
  return (
    <>
      <Title actor={actor} />
      <p class="quiet">
        {counted(body.samples, "sample")} of all threads in {body.seconds.toFixed(1)} s, by {visible(body.sampler, 40)},
        at {moment(at_ms, Date.now())}.{body.note === null ? "" : ` Note: ${visible(body.note, 600)}.`}
      </p>
      {tree.total === 0 ? (
        <p>There are no samples.</p>
      ) : (
        // Another topology makes another tree.
        <Threads key={topology?.fingerprint ?? ""} tree={tree} />
      )}
    </>
  );
}

function Threads({ tree }: { tree: FlameNode }) {
  const first = tree.children.find(({ name }) => name === TASKS_THREAD) ?? tree;
  const chosen = useSignal(first.id);
  const text = useSignal("");
  const threads = tree.children.toSorted((one, other) => other.total - one.total);
  const top = [tree, ...threads].find(({ id }) => id === chosen.value) ?? tree;
  const matches = useMemo(() => matchesUnder(top, text.value), [top, text.value]);
  return (
    <>
      <div class="bar">
        <label>
          Thread
          <select
            value={top.id}
            onChange={(event) => {
              chosen.value = Number(event.currentTarget.value);
            }}
          >
            <option value={tree.id}>all, {counted(tree.total, "sample")}</option>
            {threads.map((thread) => (
              <option key={thread.id} value={thread.id}>
                {visible(thread.name, 60)}
                {thread.name === TASKS_THREAD ? " (runs the tasks)" : ""}, {counted(thread.total, "sample")}
              </option>
            ))}
          </select>
        </label>
        <label>
          Find
          <input
            type="search"
            placeholder="function or file"
            value={text.value}
            onInput={(event) => {
              text.value = event.currentTarget.value;
            }}
          />
        </label>
        <span class="quiet" role="status">
          {matches === null ? "" : `Found in ${percent(matches.samples / top.total)} of the samples`}
        </span>
      </div>
      <FlameGraph key={top.id} top={top} matches={matches} />
      <Owners top={top} />
      <MostTime top={top} />
    </>
  );
}

/** The colours, with the share of the samples whose innermost function is of each owner. */
function Owners({ top }: { top: FlameNode }) {
  const own = useMemo(() => ownersUnder(top), [top]);
  return (
    <p class="legend">
      <span class="quiet">Innermost function of</span>
      {(["program", "penstock", "library"] as const).map((owner) => (
        <span key={owner} class="legend-step">
          <span class={`swatch of-${owner}`} />
          {OWNERS[owner]}: {percent(own[owner] / top.total)}
        </span>
      ))}
    </p>
  );
}

const COLUMNS = [
  { title: "Function" },
  { title: "File and lines" },
  { title: "Itself" },
  { title: "With its calls" },
  { title: "Samples", right: true },
  { title: "Code of" },
] as const;

/** The graph as a table: the functions in which most of the time passes. */
function MostTime({ top }: { top: FlameNode }) {
  const functions = useMemo(() => functionsUnder(top, MOST_FUNCTIONS), [top]);
  return (
    <>
      <h4>Most time in</h4>
      <Table caption="Functions with most samples" columns={COLUMNS}>
        {functions.map((each) => (
          <tr key={each.key} class={each.owner === "program" ? "own-code" : undefined}>
            <th scope="row">
              <Foreign class="mono" text={visible(each.name, 120)} />
            </th>
            <td>
              <Foreign class="mono place" text={`${each.file}:${each.lines.join(", ")}`} />
            </td>
            <td>
              <ShareBar share={each.own / top.total} calm />
            </td>
            <td>
              <ShareBar share={each.total / top.total} calm />
            </td>
            <td class="right">{count(each.own)}</td>
            <td>{OWNERS[each.owner]}</td>
          </tr>
        ))}
      </Table>
    </>
  );
}
