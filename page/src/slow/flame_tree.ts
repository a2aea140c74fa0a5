/** The stacks of an actor as a tree: a function, and under it those that it was calling. */

import type { FlameBody } from "../server/flame_source";

/** The owner of a function's code; a thread has none. */
export type Owner = "program" | "penstock" | "library" | "none";

/** Words for the owners of code. */
export const OWNERS: Record<Owner, string> = {
  program: "the program",
  penstock: "penstock",
  library: "Python and packages",
  none: "",
};

export interface FlameNode {
  readonly id: number;
  readonly name: string;
  readonly file: string;
  readonly owner: Owner;
  readonly depth: number;
  readonly parent: FlameNode | null;
  readonly children: FlameNode[];
  /** Samples in which the function was running or waited for a call of its own. */
  total: number;
  /** Samples in which it was the innermost function. */
  own: number;
  /** The lines that it was at, with their samples. */
  readonly lines: Map<number, number>;
}

const FRAME = /^(.*) \((.+):(\d+)\)$/s;

/** The thread that runs the tasks. */
export const TASKS_THREAD = "stream-loop";

/** Returns the tree of all threads. `places`: paths of files with functions of the topology; an installed package that has
 * one of them is part of the program. */
export function treeOf(body: FlameBody, places: readonly string[]): FlameNode {
  const made = new Tree(body.files, places);
  for (const stack of body.stacks) made.add(stack);
  return made.root;
}

class Tree {
  readonly root: FlameNode;
  private count = 0;
  private readonly known = new Map<FlameNode, Map<string, FlameNode>>();
  private readonly owners = new Map<string, Owner>();

  constructor(
    private readonly files: FlameBody["files"],
    private readonly places: readonly string[],
  ) {
    this.root = this.made("all threads", "", null);
  }

  add(stack: readonly (string | number)[]): void {
    const samples = Number(stack.at(-1)) || 0;
    let at = this.root;
    at.total += samples;
    for (const frame of stack.slice(0, -1)) {
      const found = FRAME.exec(String(frame));
      const isFrame = found !== null && at !== this.root;
      at = this.child(at, isFrame ? (found[1] ?? "") : String(frame), isFrame ? (found[2] ?? "") : "");
      at.total += samples;
      if (isFrame) at.lines.set(Number(found[3]), (at.lines.get(Number(found[3])) ?? 0) + samples);
    }
    at.own += samples;
  }

  private child(parent: FlameNode, name: string, file: string): FlameNode {
    let children = this.known.get(parent);
    if (children === undefined) {
      children = new Map();
      this.known.set(parent, children);
    }
    const key = `${name}\n${file}`;
    let child = children.get(key);
    if (child === undefined) {
      child = this.made(name, file, parent);
      children.set(key, child);
      parent.children.push(child);
    }
    return child;
  }

  private made(name: string, file: string, parent: FlameNode | null): FlameNode {
    const id = this.count++;
    const depth = parent === null ? 0 : parent.depth + 1;
    const owner = this.ownerOf(file);
    return { id, name, file, owner, depth, parent, children: [], total: 0, own: 0, lines: new Map() };
  }

  private ownerOf(file: string): Owner {
    if (file === "") return "none";
    let owner = this.owners.get(file);
    if (owner === undefined) {
      owner = this.found(file);
      this.owners.set(file, owner);
    }
    return owner;
  }

  private found(file: string): Owner {
    const owner = Object.hasOwn(this.files, file) ? this.files[file] : undefined;
    if (owner === "program" || owner === "penstock") return owner;
    const first = file.slice(0, file.indexOf("/") + 1);
    const named = owner === "package" && first !== "" && this.places.some((place) => place.includes(`/${first}`));
    return named ? "program" : "library";
  }
}

/** A box of the graph: all sizes are shares of the graph's width. */
export interface FlameBox {
  node: FlameNode;
  x: number;
  width: number;
}

/** Returns the boxes of a graph in which `zoomed` has the whole width, as have the functions around it. Those that are
 * narrower than `least` are left out. */
export function boxesOf(top: FlameNode, zoomed: FlameNode, least: number): FlameBox[] {
  const boxes: FlameBox[] = [];
  for (let node = zoomed; node !== top && node.parent !== null; ) {
    node = node.parent;
    boxes.unshift({ node, x: 0, width: 1 });
  }
  const add = (node: FlameNode, x: number) => {
    boxes.push({ node, x, width: node.total / zoomed.total });
    let at = x;
    for (const child of widestFirst(node)) {
      if (child.total / zoomed.total >= least) add(child, at);
      at += child.total / zoomed.total;
    }
  };
  if (zoomed.total > 0) add(zoomed, 0);
  return boxes;
}

function widestFirst(node: FlameNode): FlameNode[] {
  return node.children.toSorted((one, other) => other.total - one.total);
}

/** A function, wherever it was called. */
export interface FunctionTime {
  key: string;
  name: string;
  file: string;
  owner: Owner;
  own: number;
  total: number;
  /** The lines with most samples, the first three. */
  lines: number[];
}

const MOST_LINES = 3;

/** Returns the functions of a part of the tree, those with most samples of their own first. */
export function functionsUnder(top: FlameNode, most: number): FunctionTime[] {
  const found = new Map<string, Omit<FunctionTime, "lines"> & { lines: Map<number, number> }>();
  // The functions around the one that is visited.
  const around = new Set<string>();
  const visit = (node: FlameNode) => {
    const key = `${node.name}\n${node.file}`;
    const again = around.has(key);
    if (node.owner !== "none") {
      const { name, file, owner } = node;
      const known = found.get(key) ?? { key, name, file, owner, own: 0, total: 0, lines: new Map() };
      found.set(key, known);
      known.own += node.own;
      // A function that calls itself has each sample once.
      if (!again) known.total += node.total;
      for (const [line, samples] of node.lines) known.lines.set(line, (known.lines.get(line) ?? 0) + samples);
      around.add(key);
    }
    node.children.forEach(visit);
    if (!again) around.delete(key);
  };
  visit(top);
  return [...found.values()]
    .filter(({ own }) => own > 0)
    .sort((one, other) => other.own - one.own || other.total - one.total)
    .slice(0, most)
    .map((each) => ({ ...each, lines: mostOf(each.lines) }));
}

/** Returns the lines with most samples, the first three. */
export function mostOf(lines: ReadonlyMap<number, number>): number[] {
  return [...lines]
    .sort(([, one], [, other]) => other - one)
    .slice(0, MOST_LINES)
    .map(([line]) => line);
}

/** Returns the samples whose innermost function is of each owner. */
export function ownersUnder(top: FlameNode): Record<Owner, number> {
  const found = { program: 0, penstock: 0, library: 0, none: 0 };
  const visit = (node: FlameNode) => {
    found[node.owner] += node.own;
    node.children.forEach(visit);
  };
  visit(top);
  return found;
}

/** The functions that a search finds, and the samples that are in one of them. */
export interface Matches {
  nodes: ReadonlySet<FlameNode>;
  samples: number;
}

/** Returns the functions under `top` whose name or file contains a text; null without a text. */
export function matchesUnder(top: FlameNode, text: string): Matches | null {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return null;
  const nodes = new Set<FlameNode>();
  let samples = 0;
  const visit = (node: FlameNode, inside: boolean) => {
    const matches = `${node.name}\n${node.file}`.toLowerCase().includes(wanted);
    if (matches) nodes.add(node);
    if (matches && !inside) samples += node.total;
    for (const child of node.children) visit(child, inside || matches);
  };
  visit(top, false);
  return { nodes, samples };
}

/** Returns the box that an arrow leads to: the caller, the widest callee, or a neighbour of the same depth. */
export function neighbour(boxes: readonly FlameBox[], from: FlameNode, arrow: string): FlameNode | undefined {
  if (arrow === "ArrowUp") return boxes.find(({ node }) => node === from.parent)?.node;
  if (arrow === "ArrowDown") return boxes.find(({ node }) => node.parent === from)?.node;
  const row = boxes.filter(({ node }) => node.depth === from.depth).map(({ node }) => node);
  const step = arrow === "ArrowLeft" ? -1 : arrow === "ArrowRight" ? 1 : 0;
  return step === 0 ? undefined : row[row.indexOf(from) + step];
}
