import { describe, expect, it } from "vitest";
import type { Actor, Operator } from "../src/server/document";
import { busiest, figuresOf, sharesOf } from "../src/slow/order";
import { figureText, titleOf } from "../src/slow/units";
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

  it("are figures in the unit with which their names end", () => {
    const names = ["block_cache_usage_bytes", "delayed_write_bytes_per_s", "latency_max_ms", "background_errors"];
    expect(names.map(titleOf)).toEqual(["block cache usage", "delayed write", "latency max", "background errors"]);
    expect(names.map((name) => figureText(name, 2_000))).toEqual(["2.00 kB", "2.00 kB/s", "2000 ms", "2,000"]);
    expect(["total", "full_total"].map((name) => figureText(name, 22))).toEqual(["22", "22"]);
    expect(names.map((name) => figureText(name, undefined))).toEqual(["–", "–", "–", "–"]);
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
