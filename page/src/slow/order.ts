import { isKnown } from "../common/numbers";
import type { Actor, Operator } from "../server/document";

const MOST = 20;

/** Returns the ids of the operators that take most of an actor's time, the busiest first. Those that are not measured
 * are left out. */
export function busiest(rows: readonly [string, Operator][]): string[] {
  return rows
    .filter(([, row]) => isKnown(row.busy) && row.busy > 0)
    .sort(([, one], [, other]) => (other.busy ?? 0) - (one.busy ?? 0))
    .slice(0, MOST)
    .map(([id]) => id);
}

/** Returns the names of all shares that actors measure, as the first of them orders them. */
export function sharesOf(rows: readonly [string, Actor][]): string[] {
  return [...new Set(rows.flatMap(([, row]) => Object.keys(row.shares)))];
}

/** Returns the names of all figures of RocksDB, or of garbage collection, that one of the actors has. */
export function figuresOf(rows: readonly [string, Actor][], what: "rocksdb" | "gc"): string[] {
  return [...new Set(rows.flatMap(([, row]) => Object.keys(row[what])))].sort();
}
