import { describe, expect, it } from "vitest";
import { visible } from "../src/common/text";
import { hashOf, routeOf } from "../src/session/route";

const HOSTILE = [
  "<img src=x onerror=alert(1)>",
  "a\u202Eb\u0000c\n",
  "\ud800",
  "%zz/%2f",
  "مرحبا",
  "x".repeat(5_000_000),
];

describe("text of others", () => {
  it("shows its invisible characters", () => {
    expect(visible("a\u202Eb\u0000c\n\u200b\ufeff")).toBe("a\\u202eb\\x00c\\n\\u200b\\ufeff");
    expect(visible("<b>مرحبا ü 日本</b>")).toBe("<b>مرحبا ü 日本</b>");
  });

  it("is cut if it is long", () => {
    expect(visible("x".repeat(5_000_000)).length).toBe(2_001);
  });
});

describe("the address of a view", () => {
  it("keeps any subject", () => {
    for (const subject of HOSTILE.filter((text) => text.isWellFormed())) {
      expect(routeOf(hashOf("tasks", subject))).toEqual({ view: "tasks", subject });
    }
  });

  it("may be anything", () => {
    expect(routeOf("")).toEqual({ view: "", subject: null });
    expect(routeOf("#/tasks/%zz")).toEqual({ view: "tasks", subject: "%zz" });
    expect(hashOf("tasks", "\ud800")).toContain("#/tasks/");
  });
});
