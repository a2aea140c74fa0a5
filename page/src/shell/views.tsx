import type { ComponentType } from "preact";
import { Overview } from "../overview/overview";
import { Records } from "../records/records";
import { Rollout } from "../rollout/rollout";
import type { Finding } from "../server/document";
import { Slow } from "../slow/slow";
import { Stores } from "../stores/stores";
import { Tasks } from "../tasks/tasks";
import { Time } from "../time/time";
import { Topology } from "../topology/topology";
import type { Session } from "./session";

/** The properties of each view. `subject` is the part of it that the address names. */
export interface ViewProperties {
  session: Session;
  subject: string | null;
}

export interface View {
  /** The server's findings name it so, too. */
  name: Finding["view"];
  title: string;
  component: ComponentType<ViewProperties>;
}

/** All views that the page has, in the order of the navigation. The first is shown at first. */
export const VIEWS: readonly [View, ...View[]] = [
  { name: "overview", title: "Overview", component: Overview },
  { name: "topology", title: "Topology", component: Topology },
  { name: "tasks", title: "Tasks", component: Tasks },
  { name: "stores", title: "Stores", component: Stores },
  { name: "time", title: "Time", component: Time },
  { name: "records", title: "Records", component: Records },
  { name: "slow", title: "Why slow", component: Slow },
  { name: "rollout", title: "Roll-out", component: Rollout },
];

/** Returns the view of a name, or the first one: an address may be of a page of another version. */
export function viewOf(name: string): View {
  return VIEWS.find((view) => view.name === name) ?? VIEWS[0];
}
