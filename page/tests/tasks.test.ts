import { describe, expect, it } from "vitest";
import { behindHeat, busyHeat } from "../src/common/heat";
import type { Task } from "../src/server/document";
import { chosen, restored } from "../src/tasks/order";

const RUNNING: Task = {
  subtopology: 0,
  partition: 0,
  actor_id: "stream/1",
  node_id: "node-a",
  state: "running",
  behind_s: 0,
  lag: 0,
  records_per_s: 10,
  busy: 0.1,
  dropped_records: 0,
  restore: null,
  standbys: [],
  moving_to: null,
  waits_for: null,
  topics: [],
};

const ROWS: [string, Task][] = [
  ["0_0", { ...RUNNING, behind_s: 1, records_per_s: null }],
  ["0_1", { ...RUNNING, behind_s: 41, actor_id: "stream/10" }],
  ["0_2", { ...RUNNING, behind_s: null, state: "waiting", actor_id: null, node_id: null }],
  ["0_3", { ...RUNNING, behind_s: null, actor_id: "stream/2", records_per_s: 99 }],
];

describe("the order of tasks", () => {
  it("has those first that do not process, then those that are behind", () => {
    expect(chosen(ROWS, "", "behind")).toEqual(["0_2", "0_1", "0_0", "0_3"]);
  });

  it("has the task first that needs longest for its restore, and the larger lag of two that are equally behind", () => {
    const restoring = (seconds_left: number | null): Task => ({
      ...RUNNING,
      state: "restoring",
      behind_s: null,
      restore: { restored: 1, remaining: 9, records_per_s: null, seconds_left },
    });
    const rows: [string, Task][] = [
      ["0_0", { ...RUNNING, behind_s: 41, lag: 7 }],
      ["0_1", { ...RUNNING, behind_s: 41, lag: 9 }],
      ["0_2", restoring(3)],
      ["0_3", restoring(60)],
      ["0_4", { ...RUNNING, behind_s: null, state: "silent" }],
    ];
    expect(chosen(rows, "", "behind")).toEqual(["0_4", "0_3", "0_2", "0_1", "0_0"]);
  });

  it("is by rate or by actor if wanted", () => {
    expect(chosen(ROWS, "", "rate")[0]).toBe("0_3");
    expect(chosen(ROWS, "", "actor")).toEqual(["0_2", "0_0", "0_3", "0_1"]);
    expect(chosen(ROWS, "", "task")).toEqual(["0_0", "0_1", "0_2", "0_3"]);
  });

  it("leaves out tasks without the text", () => {
    expect(chosen(ROWS, " STREAM/1 ", "task")).toEqual(["0_0", "0_1"]);
    expect(chosen(ROWS, "waiting", "task")).toEqual(["0_2"]);
    expect(chosen(ROWS, "nothing has this", "task")).toEqual([]);
  });
});

describe("a restore", () => {
  it("has a done share if its parts are known", () => {
    const restore = { restored: 3, remaining: 1, records_per_s: null, seconds_left: null };
    expect(restored(restore)).toBe(0.75);
    expect(restored({ ...restore, restored: 0, remaining: 0 })).toBeNull();
  });
});

describe("heat", () => {
  it("has five steps, and none for a figure that is not known", () => {
    expect([0, 0.25, 0.5, 0.75, 0.9, 7].map(busyHeat)).toEqual([0, 1, 2, 3, 4, 4]);
    expect([0, 1, 10, 41, 1e9].map(behindHeat)).toEqual([0, 1, 2, 3, 4]);
    expect([null, undefined, Number.NaN].map(behindHeat)).toEqual([null, null, null]);
  });
});
