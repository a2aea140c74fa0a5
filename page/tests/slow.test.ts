import { describe, expect, it } from "vitest";
import type { Actor, Operator } from "../src/server/document";
import { busiest, figuresOf, sharesOf } from "../src/slow/order";
import { isWait } from "../src/tasks/order";

const operator = (busy: number | null) => ({ busy }) as Operator;
const actor = (shares: Record<string, number>, rocksdb: Record<string, number> = {}) => ({ shares, rocksdb }) as Actor;

describe("the reasons of slowness", () => {
  it("are the busiest operators, without those that are not measured", () => {
    const rows: [string, Operator][] = [
      ["a", operator(0.2)],
      ["b", operator(null)],
      ["c", operator(0.9)],
      ["d", operator(0)],
    ];
    expect(busiest(rows)).toEqual(["c", "a"]);
    const many = Array.from({ length: 30 }, (_, index): [string, Operator] => [`${index}`, operator(index + 1)]);
    expect(busiest(many)).toHaveLength(20);
  });

  it("have a column for each share that one of the actors measures", () => {
    const rows: [string, Actor][] = [
      ["x", actor({ process: 0.5, commit: 0.1 })],
      ["y", actor({ process: 0.5, poll: 0.1 }, { b: 1, a: 2 })],
    ];
    expect(sharesOf(rows)).toEqual(["process", "commit", "poll"]);
    expect(figuresOf(rows, "rocksdb")).toEqual(["a", "b"]);
    expect(sharesOf([])).toEqual([]);
  });

  it("are no shares in which an actor waits, so that these have a calm colour", () => {
    expect(["process", "commit", "idle", "fetch_wait", "broker_wait"].map(isWait)).toEqual([
      false,
      false,
      true,
      true,
      true,
    ]);
  });
});
