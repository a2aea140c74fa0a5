import type { ComponentType } from "preact";
import { Overview } from "../overview/overview";
import { Records } from "../records/records";
import { Rollout } from "../rollout/rollout";
import type { ViewName, ViewProperties } from "../session/views";
import { Slow } from "../slow/slow";
import { Stores } from "../stores/stores";
import { Tasks } from "../tasks/tasks";
import { Time } from "../time/time";
import { Topology } from "../topology/topology";

/** The component of each view. */
export const COMPONENTS: Readonly<Record<ViewName, ComponentType<ViewProperties>>> = {
  overview: Overview,
  topology: Topology,
  tasks: Tasks,
  stores: Stores,
  time: Time,
  records: Records,
  slow: Slow,
  rollout: Rollout,
};
