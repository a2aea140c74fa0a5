import { useComputed } from "@preact/signals";

/** Returns ids that are computed from signals. The component is drawn again if they or their order change, and not with each
 * figure that they are computed from. */
export function useIds(compute: () => readonly string[]): readonly string[] {
  const text = useComputed(() => JSON.stringify(compute()));
  return JSON.parse(text.value) as string[];
}
