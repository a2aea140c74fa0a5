import { describe, expect, it } from "vitest";
import { type History, tasksThen, timesOf } from "../src/time/series";

const EMPTY = { records_per_s: [], lag: [], behind_s: [], commits_per_s: [], restoring: [], dead_letters: [] };
const HISTORY: History = {
  step_ms: 5_000,
  from_ms: 10_000,
  began_ms: 10_000,
  samples: {
    application: { ...EMPTY, lag: [1, null, 3] },
    actors: ["stream/0", "stream/1"],
    tasks: {
      "0_0": { records_per_s: [1, 2], behind_s: [3, null], busy: [0.1, 0.2], actor: [0, 1] },
      "0_1": { records_per_s: [], behind_s: [], busy: [], actor: [null] },
    },
  },
  events: [],
};

describe("the last hour", () => {
  it("has a time for each step, in seconds", () => {
    expect(timesOf(HISTORY)).toEqual([10, 15, 20]);
    expect(timesOf({ ...HISTORY, from_ms: null })).toEqual([]);
  });

  it("has tasks as they were at its last step", () => {
    const [first, second] = tasksThen(HISTORY);
    expect(first).toEqual({ id: "0_0", behind_s: null, records_per_s: 2, busy: 0.2, actor_id: "stream/1" });
    expect(second).toEqual({ id: "0_1", behind_s: null, records_per_s: null, busy: null, actor_id: null });
  });
});
