/** The document of `GET …/topology`: the picture with all positions, and the operators' user functions. */

export type BoxKind = "source" | "processor" | "sink" | "store" | "global-store" | "topic" | "repartition";

export interface Box {
  id: string;
  kind: BoxKind;
  name: string;
  note: string;
  title: string;
  lane: string | null;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Lane {
  id: string;
  name: string;
  is_global: boolean;
  x: number;
  y: number;
  width: number;
  height: number;
  name_x: number;
}

export interface Line {
  id: string;
  source: string;
  target: string;
  to_store: boolean;
  /** A path of SVG. */
  path: string;
}

export interface Picture {
  title: string;
  width: number;
  height: number;
  lanes: Lane[];
  boxes: Box[];
  lines: Line[];
}

export interface UserFunction {
  role: string;
  name: string;
  file: string | null;
  line: number | null;
}

export interface OperatorOfTopology {
  kind: string;
  subtopology: number;
  functions: UserFunction[];
  stores: string[];
  topics: string[];
}

export interface TopologyDocument {
  generation: number;
  fingerprint: string;
  picture: Picture;
  operators: Record<string, OperatorOfTopology>;
}
