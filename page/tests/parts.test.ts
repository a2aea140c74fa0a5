import { describe, expect, it } from "vitest";
import type { Box, BoxKind, Line, Picture } from "../src/server/topology_document";
import { boxOf, endOf, nameOf, noteWithFunction, partId, ratesOfLines } from "../src/topology/parts";
import { nextBox } from "../src/topology/picture";

const KINDS: Record<string, BoxKind> = { node: "processor", store: "store", topic: "topic" };

function box(kind: string, name: string, x = 0, y = 0, as?: BoxKind): Box {
  const shape = { x, y, width: 100, height: 44 };
  return {
    id: partId(kind, name),
    kind: as ?? KINDS[kind] ?? "processor",
    name,
    note: "",
    title: name,
    lane: null,
    topic: kind !== "topic" ? null : as === "repartition" ? `orders-${name}` : name,
    ...shape,
  };
}

function line(source: Box, target: Box): Line {
  const to_store = target.kind === "store";
  return { id: `${source.id}>${target.id}`, source: source.id, target: target.id, to_store, path: "M0 0L1 2" };
}

function picture(boxes: Box[], lines: Line[]): Picture {
  return { title: "", width: 1, height: 1, lanes: [], boxes, lines };
}

describe("the ids of parts", () => {
  it("are quoted as Python quotes them", () => {
    expect(partId("node", "a b/c'(*)!~é")).toBe("node:a%20b%2Fc%27%28%2A%29%21~%C3%A9");
    expect(nameOf(partId("node", "50 % of: é"))).toBe("50 % of: é");
    expect(nameOf("node:%zz")).toBe("%zz");
  });

  it("lead to boxes, as do names, and those that repartition topics have in Kafka", () => {
    const boxes = [
      box("node", "enrich"),
      box("store", "counts"),
      box("topic", "by-key-repartition", 0, 0, "repartition"),
    ];
    const all = picture(boxes, []);
    expect(boxOf(all, "node:enrich")).toBe(boxes[0]);
    expect(boxOf(all, "counts")).toBe(boxes[1]);
    expect(boxOf(all, "orders-by-key-repartition")).toBe(boxes[2]);
    expect(boxOf(all, "key-repartition")).toBeUndefined();
    expect(boxOf(all, "others-by-key-repartition")).toBeUndefined();
  });
});

describe("the rates of lines", () => {
  const orders = box("topic", "orders");
  const source = box("node", "source", 0, 0, "source");
  const [left, right, merged] = [box("node", "left"), box("node", "right"), box("node", "merged")];
  const sink = box("node", "sink", 0, 0, "sink");
  const out = box("topic", "out");
  const store = box("store", "counts");
  const lines = [
    line(orders, source),
    line(source, left),
    line(source, right),
    line(left, merged),
    line(right, merged),
    line(merged, store),
    line(merged, sink),
    line(sink, out),
  ];
  const rates = ratesOfLines(picture([orders, source, left, right, merged, sink, out, store], lines));

  it("are those of the operator that one line enters, and of the sink that it leaves", () => {
    expect(rates.get(line(orders, source).id)).toEqual({ section: "operators", id: "source" });
    expect(rates.get(line(source, left).id)).toEqual({ section: "operators", id: "left" });
    expect(rates.get(line(sink, out).id)).toEqual({ section: "operators", id: "sink" });
  });

  it("are not known where two lines enter one operator, and there are none to stores", () => {
    for (const unknown of [line(left, merged), line(right, merged), line(merged, store)]) {
      expect(rates.has(unknown.id)).toBe(false);
    }
  });

  it("are those of the topic if a source reads several", () => {
    const other = box("topic", "other");
    const found = ratesOfLines(picture([orders, other, source], [line(orders, source), line(other, source)]));
    const figure = "records_in_per_s";
    expect(found.get(line(other, source).id)).toEqual({ section: "topics", id: "other", figure });
  });

  it("are shown at the end of the path", () => {
    expect(endOf("M274 64L274 88Q274 94 280 94L300.5 128")).toEqual({ x: 300.5, y: 128 });
    expect(endOf("")).toEqual({ x: 0, y: 0 });
  });
});

describe("the arrows", () => {
  it("lead from a box to the nearest one in their direction", () => {
    const here = box("node", "here", 200, 200);
    const boxes = [here, box("node", "below", 210, 300), box("node", "far", 200, 600), box("node", "beside", 400, 210)];
    const named = (x: number, y: number) => nextBox(boxes, here, [x, y])?.name;
    expect([named(0, 1), named(1, 0), named(0, -1), named(-1, 0)]).toEqual(["below", "beside", undefined, undefined]);
  });
});

describe("the second line of a box", () => {
  const enrich = { role: "mapper", name: "shop.enrich", file: "/app/shop.py", line: 41 };

  it("has as much of the function as there is room for", () => {
    const note = (room: number, of = enrich) => noteWithFunction("map values", [of], room);
    expect(note(30)).toBe("map values enrich, shop.py:41");
    expect(note(20)).toBe("map values enrich");
    expect(note(12)).toBe("map values");
    expect(note(40, { ...enrich, name: "main.<locals>.<lambda>" })).toBe("map values, shop.py:41");
    expect(noteWithFunction("sink", [], 40)).toBe("sink");
  });

  it("needs no place of the function", () => {
    expect(noteWithFunction("filter", [{ ...enrich, file: null, line: null }], 40)).toBe("filter enrich");
  });
});
