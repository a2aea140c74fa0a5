/** The live document: rows by section and id. `null` is a figure that is not known. The server's own types. */

import type { components } from "./schema";

type Schemas = components["schemas"];

export type Application = Schemas["LiveApplication"];
export type Finding = Schemas["FindingBody"];
export type Level = Finding["level"];
export type Task = Schemas["LiveTask"];
export type Restore = Schemas["LiveRestore"];
export type Actor = Schemas["LiveActor"];
export type Operator = Schemas["LiveOperator"];
export type Topic = Schemas["LiveTopic"];
export type Store = Schemas["LiveStore"];
export type Rollout = Schemas["LiveRollout"];

/** The rows of all sections. */
export interface Sections {
  application: Application;
  findings: Finding;
  tasks: Task;
  actors: Actor;
  operators: Operator;
  topics: Topic;
  stores: Store;
  rollout: Rollout;
}

export type SectionName = keyof Sections;

/** Changed rows, whole, by section and id. Null: the row is gone. */
export type Changes = { [S in SectionName]?: Record<string, Sections[S] | null> };
