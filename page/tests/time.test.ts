import { describe, expect, it } from "vitest";
import {
  againFrom,
  axisText,
  clocks,
  continued,
  type History,
  type HistoryEvent,
  rowsThen,
  timesOf,
} from "../src/time/series";

const EMPTY = { records_per_s: [], lag: [], behind_s: [], commits_per_s: [], restoring: [], dead_letters: [] };
const HISTORY: History = {
  step_ms: 5_000,
  from_ms: 10_000,
  began_ms: 10_000,
  samples: {
    application: { ...EMPTY, lag: [1, null, 3] },
    actors: ["stream/0", "stream/1"],
    states: ["waiting", "silent", "created", "restoring", "running"],
    tasks: {
      "0_0": { records_per_s: [1, 2], behind_s: [3, null], busy: [0.1, 0.2], actor: [0, 1], state: [0, 4] },
      "0_1": { records_per_s: [], behind_s: [], busy: [], actor: [null], state: [null] },
    },
    operators: { enrich: { records_per_s: [5, 6], busy: [0.5, null] } },
    topics: { lines: { records_in_per_s: [7], records_out_per_s: [null] } },
    findings: [null, { level: "warning", sentence: "late", since_ms: 9_000, view: "tasks", subject: "0_0" }],
  },
  events: [],
};

describe("the last hour", () => {
  it("has a time for each step, in seconds", () => {
    expect(timesOf(HISTORY)).toEqual([10, 15, 20]);
    expect(timesOf({ ...HISTORY, from_ms: null })).toEqual([]);
  });

  it("has everything as it was at its last step", () => {
    const { tasks, operators, topics, findings } = rowsThen(HISTORY);
    expect(tasks["0_0"]).toMatchObject({ behind_s: null, records_per_s: 2, busy: 0.2, actor_id: "stream/1" });
    expect(tasks["0_0"]).toMatchObject({ subtopology: 0, partition: 0, state: "running", lag: null });
    expect(tasks["0_1"]).toMatchObject({ partition: 1, records_per_s: null, actor_id: null, state: "waiting" });
    expect(operators.enrich).toMatchObject({ records_per_s: 6, busy: null });
    expect(topics.lines).toMatchObject({ records_in_per_s: 7, records_out_per_s: null, lag: null });
    expect(findings["0"]?.sentence).toBe("late");
    const nothing = { ...HISTORY.samples, findings: [], tasks: {}, operators: {}, topics: {} };
    expect(rowsThen({ ...HISTORY, samples: nothing })).toEqual({ findings: {}, tasks: {}, operators: {}, topics: {} });
  });
});

function part(from_ms: number | null, lag: (number | null)[], events: HistoryEvent[] = []): History {
  const application = { ...EMPTY, lag, records_per_s: lag, behind_s: lag };
  return { ...HISTORY, from_ms, samples: { ...HISTORY.samples, application }, events };
}

function event(at_ms: number, times = 1): HistoryEvent {
  const of = { actor_id: null, task_id: null, page: null };
  return { at_ms, until_ms: at_ms, times, kind: "log", level: "warning", sentence: "x", ...of };
}

describe("the times of the axis", () => {
  it("are all different, with seconds only if they need them", () => {
    const noon = Date.parse("2026-01-02T12:00:00") / 1_000;
    expect(clocks([noon, noon + 30], 30)).toEqual(["12:00:00", "12:00:30"]);
    expect(clocks([noon, noon + 60], 60)).toEqual(["12:00", "12:01"]);
  });
});

describe("what is new in a history", () => {
  it("is asked for from a moment before its end", () => {
    expect(againFrom(null)).toBe(0);
    expect(againFrom(part(null, []))).toBe(0);
    expect(againFrom(part(1_000_000, [1, 2]))).toBe(1_000_000 + 10_000 - 60_000);
  });

  it("replaces its end, and a step without a sample is a gap", () => {
    const known = part(10_000, [1, 2, 3]);
    expect(continued(known, part(20_000, [30, 40]))?.samples.application.lag).toEqual([1, 2, 30, 40]);
    expect(continued(known, part(35_000, [6]))?.samples.application.lag).toEqual([1, 2, 3, null, null, 6]);
    expect(continued(known, part(null, []))?.samples.application.lag).toEqual([1, 2, 3]);
    expect(continued(part(null, []), known)?.samples.application.lag).toEqual([1, 2, 3]);
  });

  it("moves its begin when an hour is full", () => {
    const known = part(
      0,
      Array.from({ length: 720 }, (_, step) => step),
    );
    const found = continued(known, part(720 * 5_000, [720, 721]));
    expect(found?.from_ms).toBe(2 * 5_000);
    expect(found?.samples.application.lag).toHaveLength(720);
    expect(found?.samples.application.lag.slice(0, 1)).toEqual([2]);
    expect(found?.samples.application.lag.at(-1)).toBe(721);
  });

  it("is all of it for another coordinator, other steps, or an earlier time", () => {
    const known = part(10_000, [1]);
    expect(continued(known, { ...part(15_000, [2]), began_ms: 11_000 })).toBeNull();
    expect(continued(known, { ...part(20_000, [2]), step_ms: 10_000 })).toBeNull();
    expect(continued(known, part(5_000, [2]))).toBeNull();
  });

  it("has each event once, in order, with how often it has happened", () => {
    const known = part(10_000, [1], [event(1_000), event(3_000)]);
    const found = continued(known, part(15_000, [2], [event(3_000, 4), event(2_000)]));
    expect(found?.events.map(({ at_ms, times }) => [at_ms, times])).toEqual([
      [1_000, 1],
      [2_000, 1],
      [3_000, 4],
    ]);
  });
});

describe("an axis", () => {
  it("of counts has whole numbers only", () => {
    expect([0, 0.5, 1, 20, 2_000].map((value) => axisText(value, true))).toEqual(["0", "", "1", "20", "2,000"]);
    expect(axisText(0.5, false)).toBe("0.5");
    expect(axisText(12_345, true)).toBe("12.3 k");
  });
});
