/** The live document: what each row of each section holds. `null` is a figure that is not known. */

export type Level = "ok" | "warning" | "fault";
export type ViewName = "overview" | "topology" | "tasks" | "stores" | "time" | "slow" | "records" | "rollout";

/** Before the coordinator has answered once, most of it is left out. */
export interface Application {
  application_id: string;
  state?: string | null;
  paused?: boolean;
  penstock_version: string;
  at_ms?: number | null;
  /** Since when the coordinator gives no answer: all figures are from then. */
  silent_since_ms: number | null;
  started_ms?: number | null;
  task_count?: number;
  records_per_s?: number | null;
  lag?: number | null;
  lag_is_known?: boolean;
  behind_s?: number | null;
  waiting?: string | null;
  error?: string | null;
  generation?: number;
  may_operate: boolean;
}

export interface Finding {
  level: Level;
  sentence: string;
  since_ms: number | null;
  view: ViewName;
  subject: string | null;
}

export interface Restore {
  restored: number | null;
  remaining: number;
  records_per_s: number | null;
  seconds_left: number | null;
}

export interface Standby {
  actor_id: string;
  node_id: string | null;
  lag: number | null;
}

export interface TaskTopic {
  topic: string;
  partition: number;
  lag: number | null;
  committed: number | null;
}

export type TaskState = "created" | "restoring" | "running" | "closed" | "waiting" | "silent";

export interface Task {
  subtopology: number;
  partition: number;
  actor_id: string | null;
  node_id: string | null;
  state: TaskState;
  behind_s: number | null;
  lag: number | null;
  records_per_s: number | null;
  busy: number | null;
  dropped_records: number | null;
  restore: Restore | null;
  standbys: Standby[];
  moving_to: string | null;
  waits_for: string | null;
  topics: TaskTopic[];
}

export interface Actor {
  node_id: string;
  pid: number;
  state: string;
  generation: number;
  tasks: string[];
  standbys: string[];
  busy: number | null;
  shares: Record<string, number | null>;
  commit_pause_p50_ms: number | null;
  commit_pause_max_ms: number | null;
  commits: number;
  error: string | null;
}

export interface Operator {
  subtopology: number;
  records_per_s: number | null;
  busy: number | null;
  busy_sum: number | null;
  calls_in_flight: number | null;
  breaker: string | null;
}

export interface Topic {
  /** Records that the application reads from it, and those that it writes to it. */
  records_in_per_s: number | null;
  records_out_per_s: number | null;
  lag: number | null;
}

export interface Store {
  subtopology: number;
  rows: number | null;
  bytes: number | null;
  /** Number of tasks that restore it. */
  restoring: number;
}

export interface Rollout {
  phase: string;
  generation: number;
  last: number;
  reason: string;
  actors: Record<string, string[]>;
}

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
