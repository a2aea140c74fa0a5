import { describe, expect, it } from "vitest";
import { type Change, summary } from "../src/rollout/changes";

function change(kind: Change["kind"], fate: Change["fate"], name: string): Change {
  return { kind, fate, is_loss: false, name, was: "", now: "", use: "", note: "" };
}

describe("the changes of a roll-out", () => {
  const changes = [change("store", "rebuilt", "b"), change("store", "kept", "a"), change("store", "kept", "c")];

  it("are counted in a sentence", () => {
    expect(summary([...changes, change("tasks", "moved", "0_*")])).toBe(
      "1 group of tasks moved, 1 store rebuilt, 2 stores kept.",
    );
    expect(summary([])).toBe("Nothing changes.");
  });
});
