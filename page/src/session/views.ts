import type { Finding } from "../server/document";
import type { Session } from "./session";

/** The properties of each view. `subject` is the part of it that the address names. */
export interface ViewProperties {
  session: Session;
  subject: string | null;
}

/** The name of a view in addresses. The server's findings name it so, too. */
export type ViewName = Finding["view"];

/** The titles of all views that the page has, in the order of the navigation. The first is shown at first. */
export const VIEWS: readonly [View, ...View[]] = [
  { name: "overview", title: "Overview" },
  { name: "topology", title: "Topology" },
  { name: "tasks", title: "Tasks" },
  { name: "stores", title: "Stores" },
  { name: "time", title: "Time" },
  { name: "records", title: "Records" },
  { name: "slow", title: "Why slow" },
  { name: "rollout", title: "Roll-out" },
];

export interface View {
  name: ViewName;
  title: string;
}

/** Returns the view of a name, or the first one: an address may be of a page of another version. */
export function viewOf(name: string): View {
  return VIEWS.find((view) => view.name === name) ?? VIEWS[0];
}
