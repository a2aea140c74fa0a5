import { describe, expect, it } from "vitest";
import type { FlameBody } from "../src/server/flame_source";
import {
  boxesOf,
  type FlameNode,
  functionsUnder,
  matchesUnder,
  neighbour,
  ownersUnder,
  treeOf,
} from "../src/slow/flame_tree";

function body(stacks: (string | number)[][], files: FlameBody["files"] = {}): FlameBody {
  const samples = stacks.reduce((sum, stack) => sum + Number(stack.at(-1)), 0);
  return { stacks, samples, seconds: 10, sampler: "py-spy", note: null, files };
}

const FILES: FlameBody["files"] = { "shop.py": "program", "penstock/loop.py": "penstock", "json/x.py": "python" };
const TREE = treeOf(
  body(
    [
      ["stream-loop", "run (penstock/loop.py:5)", "price (shop.py:7)", "dumps (json/x.py:1)", 60],
      ["stream-loop", "run (penstock/loop.py:5)", "price (shop.py:8)", 20],
      ["stream-loop", "run (penstock/loop.py:9)", 10],
      ["lease", "wait (threading.py:3)", 10],
    ],
    FILES,
  ),
  [],
);

function child(node: FlameNode, name: string): FlameNode {
  const found = node.children.find((each) => each.name === name);
  if (found === undefined) throw new Error(`no ${name}`);
  return found;
}

const LOOP = child(TREE, "stream-loop");
const PRICE = child(child(LOOP, "run"), "price");

describe("the tree of stacks", () => {
  it("has one node for a function at several lines, and counts the samples of each line", () => {
    expect([TREE.total, LOOP.total, PRICE.total, PRICE.own]).toEqual([100, 90, 80, 20]);
    expect([...PRICE.lines]).toEqual([
      [7, 60],
      [8, 20],
    ]);
  });

  it("takes frames of any form, and a thread that is named as a frame is", () => {
    const odd = treeOf(body([["a (b.py:1)", "native", "", "f (g (h.py:2)", "x\n(y.py:3)", 2], [7], []]), []);
    expect(odd.children.map(({ name, file }) => [name, file])).toEqual([["a (b.py:1)", ""]]);
    expect(odd.total).toBe(9);
  });

  it("knows whose code a file is, and that a package with a function of the topology is the program", () => {
    const stacks = ["a (penstock/a.py:1)", "b (shop/b.py:1)", "c (other/c.py:1)", "d (constructor:1)"];
    const files = { "penstock/a.py": "penstock", "shop/b.py": "package", "other/c.py": "package" } as const;
    const owners = (places: string[]) =>
      treeOf(body([["t", ...stacks, 1]], { ...files }), places)
        .children.flatMap((thread) => [...chain(thread)])
        .map(({ owner }) => owner);
    expect(owners([])).toEqual(["none", "penstock", "library", "library", "library"]);
    expect(owners(["/venv/site-packages/shop/prices.py"])).toEqual([
      "none",
      "penstock",
      "program",
      "library",
      "library",
    ]);
  });
});

function* chain(node: FlameNode): Generator<FlameNode> {
  yield node;
  for (const each of node.children) yield* chain(each);
}

describe("the boxes of a graph", () => {
  it("are beside each other under their caller, the widest first", () => {
    expect(boxesOf(LOOP, LOOP, 0).map(({ node, x, width }) => [node.name, x, width])).toEqual([
      ["stream-loop", 0, 1],
      ["run", 0, 1],
      ["price", 0, 80 / 90],
      ["dumps", 0, 60 / 90],
    ]);
    expect(boxesOf(TREE, TREE, 0).find(({ node }) => node.name === "lease")?.x).toBe(0.9);
  });

  it("have the whole width where one zooms, as have the callers; narrow ones are left out", () => {
    expect(boxesOf(LOOP, PRICE, 0.8).map(({ node, width }) => [node.name, width])).toEqual([
      ["stream-loop", 1],
      ["run", 1],
      ["price", 1],
    ]);
  });

  it("are reached by arrows", () => {
    const boxes = boxesOf(TREE, TREE, 0);
    expect(neighbour(boxes, LOOP, "ArrowRight")?.name).toBe("lease");
    expect(neighbour(boxes, LOOP, "ArrowLeft")).toBeUndefined();
    expect(neighbour(boxes, LOOP, "ArrowDown")?.name).toBe("run");
    expect(neighbour(boxes, LOOP, "ArrowUp")).toBe(TREE);
    expect(neighbour(boxes, TREE, "ArrowUp")).toBeUndefined();
    expect(neighbour(boxes, LOOP, "a")).toBeUndefined();
  });
});

describe("the functions with most time", () => {
  it("are ordered by their own samples, over all callers", () => {
    expect(functionsUnder(TREE, 3).map(({ name, own, total, lines }) => [name, own, total, lines])).toEqual([
      ["dumps", 60, 60, [1]],
      ["price", 20, 80, [7, 8]],
      ["run", 10, 90, [5, 9]],
    ]);
    expect(ownersUnder(TREE)).toEqual({ program: 20, penstock: 10, library: 70, none: 0 });
  });

  it("count a sample once if a function calls itself", () => {
    const again = treeOf(body([["t", "f (a.py:1)", "g (a.py:2)", "f (a.py:3)", 5]]), []);
    expect(functionsUnder(again, 9).map(({ name, own, total }) => [name, own, total])).toEqual([["f", 5, 5]]);
  });
});

describe("a search", () => {
  it("finds functions by name and file, and counts samples once", () => {
    expect(matchesUnder(TREE, "  ")).toBeNull();
    const found = matchesUnder(TREE, "SHOP.py");
    expect([...(found?.nodes ?? [])]).toEqual([PRICE]);
    expect(found?.samples).toBe(80);
    expect(matchesUnder(TREE, "r")?.samples).toBe(100);
    expect(matchesUnder(TREE, "nowhere")).toEqual({ nodes: new Set(), samples: 0 });
  });
});
