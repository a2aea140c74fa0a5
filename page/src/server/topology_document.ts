/** The document of `GET …/topology`: the picture with all positions, and the operators' user functions. */

import type { components } from "./schema";

type Schemas = components["schemas"];

export type TopologyDocument = Schemas["TopologyBody"];
export type Picture = Schemas["PictureBody"];
export type Box = Schemas["BoxBody"];
export type BoxKind = Box["kind"];
export type Lane = Schemas["LaneBody"];
export type Line = Schemas["LineBody"];
export type OperatorOfTopology = Schemas["OperatorBody"];
export type UserFunction = Schemas["FunctionBody"];
