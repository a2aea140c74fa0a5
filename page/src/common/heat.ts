/** Steps of heat, 0 to 4, for colours. Each has a text or a length beside it that shows the same. */

import { type Figure, isKnown } from "./numbers";

export type Heat = 0 | 1 | 2 | 3 | 4;

/** The last step is where the findings name an actor as busy. tests/page/test_rules.py compares both with the server. */
const BUSY_STEPS = [0.25, 0.5, 0.75, 0.9] as const;
/** The second step is where the findings count a task as behind. */
const BEHIND_STEPS_S = [1, 10, 30, 120] as const;

/** Returns the step of a busy share; null while it is not known. */
export function busyHeat(share: Figure): Heat | null {
  return step(share, BUSY_STEPS);
}

/** Returns the step of a time behind, in seconds; null while it is not known. */
export function behindHeat(seconds: Figure): Heat | null {
  return step(seconds, BEHIND_STEPS_S);
}

function step(value: Figure, steps: readonly number[]): Heat | null {
  if (!isKnown(value)) return null;
  return steps.filter((from) => value >= from).length as Heat;
}

/** Returns the class of a step. */
export function heatClass(heat: Heat | null): string {
  return heat === null ? "heat-unknown" : `heat-${heat}`;
}

export const BUSY_LEGEND = ["below 25 %", "from 25 %", "from 50 %", "from 75 %", "from 90 %"] as const;
export const BEHIND_LEGEND = ["below 1 s", "from 1 s", "from 10 s", "from 30 s", "from 2 min"] as const;
