import { effect } from "@preact/signals";
import { describe, expect, it } from "vitest";
import type { Operator } from "../src/server/document";
import { LiveDocument, Section } from "../src/server/live_document";

const operator = (busy: number | null): Operator => ({
  subtopology: 0,
  records_per_s: 1,
  busy,
  busy_sum: busy,
  calls_in_flight: null,
  calls_waiting: null,
  breaker: null,
});

function counted<Key extends string>(counts: Record<Key, number>, what: Key, read: () => unknown): void {
  read();
  counts[what] += 1;
}

describe("a section", () => {
  it("keeps the signal of a row, and redraws that row alone", () => {
    const section = new Section<Operator>();
    section.apply({ a: operator(0.1), b: operator(0.2) }, true);
    const drawn = { a: 0, b: 0, order: 0 };
    const counting = (what: keyof typeof drawn, read: () => unknown) => effect(() => counted(drawn, what, read));
    counting("a", () => section.value("a"));
    counting("b", () => section.value("b"));
    counting("order", () => section.ids.value);
    section.apply({ b: operator(0.9) }, false);
    expect(drawn).toEqual({ a: 1, b: 2, order: 1 });
    expect(section.value("b")?.busy).toBe(0.9);
  });

  it("redraws nothing for a whole document that is the same", () => {
    const section = new Section<Operator>();
    section.apply({ a: operator(0.1) }, true);
    const drawn = { all: 0 };
    effect(() => counted(drawn, "all", () => section.entries()));
    section.apply({ a: operator(0.1) }, true);
    expect(drawn.all).toBe(1);
  });

  it("drops a row that a delta sets to null, and those that a whole document lacks", () => {
    const section = new Section<Operator>();
    section.apply({ a: operator(0), b: operator(0), c: operator(0) }, true);
    section.apply({ b: null, d: operator(null) }, false);
    expect(section.ids.value).toEqual(["a", "c", "d"]);
    section.apply({ c: operator(1) }, true);
    expect(section.ids.value).toEqual(["c"]);
    expect(section.value("a")).toBeUndefined();
  });

  it("orders ids by the numbers in them", () => {
    const section = new Section<Operator>();
    section.apply({ "1_10": operator(0), "1_9": operator(0), "0_2": operator(0) }, true);
    expect(section.ids.value).toEqual(["0_2", "1_9", "1_10"]);
  });

  it("takes ids that are names of an object's own members", () => {
    const section = new Section<Operator>();
    section.apply(JSON.parse('{"__proto__": {"subtopology": 3}, "constructor": {"subtopology": 4}}'), true);
    expect(section.value("__proto__")?.subtopology).toBe(3);
    section.apply(JSON.parse('{"__proto__": null}'), false);
    expect(section.ids.value).toEqual(["constructor"]);
  });
});

describe("the live document", () => {
  it("leaves out sections that it does not know, and empties those that a whole document lacks", () => {
    const document = new LiveDocument();
    document.apply({ operators: { a: operator(0) }, later: { x: 1 } } as never, true);
    expect(document.known.value).toBe(true);
    document.apply({}, false);
    expect(document.sections.operators.ids.value).toEqual(["a"]);
    document.apply({}, true);
    expect(document.sections.operators.ids.value).toEqual([]);
  });
});
