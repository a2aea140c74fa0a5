import { signal } from "@preact/signals";

/** A view and the part of it that is looked at: `#/topology/node%3Aenrich`. */
export interface Route {
  view: string;
  subject: string | null;
}

/** Returns the route of a hash. A broken escape is taken as it stands. */
export function routeOf(hash: string): Route {
  const [view = "", ...rest] = hash.replace(/^#\/?/, "").split("/");
  const subject = rest.join("/");
  try {
    return { view: decodeURIComponent(view), subject: subject === "" ? null : decodeURIComponent(subject) };
  } catch {
    return { view, subject: subject || null };
  }
}

/** Returns the address of a view, and of a subject in it. */
export function hashOf(view: string, subject: string | null = null): string {
  // encodeURIComponent raises an error for half of a surrogate pair.
  return `#/${encodeURIComponent(view)}${subject === null ? "" : `/${encodeURIComponent(subject.toWellFormed())}`}`;
}

/** The current route. */
export const route = signal<Route>({ view: "", subject: null });

/** Follows the address of the window. */
export function followRoute(): void {
  const take = () => {
    route.value = routeOf(location.hash);
  };
  take();
  addEventListener("hashchange", take);
}
