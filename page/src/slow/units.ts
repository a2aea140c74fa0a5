/** Figures of RocksDB and of garbage collection. The server ends their names with the unit; those
 * without one are counts. */

import { bytes, count, type Figure, isKnown, milliseconds } from "../common/numbers";

const UNIT = /_(ms|bytes|bytes_per_s)$/;

/** Returns the name of a figure for people, without its unit. */
export function titleOf(name: string): string {
  return name.replace(UNIT, "").replaceAll("_", " ");
}

/** Returns a figure in its unit. */
export function figureText(name: string, value: Figure): string {
  const unit = UNIT.exec(name)?.[1];
  if (unit === "ms") return milliseconds(value);
  if (unit === "bytes_per_s" && isKnown(value)) return `${bytes(value)}/s`;
  return unit === undefined ? count(value) : bytes(value);
}
