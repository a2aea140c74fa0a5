import { describe, expect, it } from "vitest";
import { choicesOf, type Letter, pathOf, placeIn, placeOf, subjectOf } from "../src/records/places";

function letter(offset: number, exception: string | null, topic: string | null): Letter {
  return {
    partition: 0,
    offset,
    timestamp: 0,
    error: exception === null ? null : { exception, message: null, stacktrace: null },
    origin: { topic, partition: 0, offset: 7 },
    key: null,
    value: null,
    raw_key: null,
    raw_value: null,
    headers: [],
    header_count: 0,
    replays: [],
    replay_count: 0,
  };
}

describe("the address of a letter", () => {
  it("leads to the letter, and that of the list to the list", () => {
    expect(placeIn(subjectOf())).toBe("");
    expect(placeIn(subjectOf(placeOf(letter(12, null, null))))).toBe("0@12");
    expect(placeIn("orders")).toBeNull();
    expect(placeIn(null)).toBeNull();
  });

  it("is no path if it is no place", () => {
    expect(pathOf("0@12")).toBe("0/12");
    expect(["", "0", "0@", "-1@2", "0@12/..", "0@1234567890123456789"].map(pathOf)).toEqual(Array(6).fill(null));
  });
});

describe("the letters that can be replayed together", () => {
  const letters = [letter(1, "KeyError", "orders"), letter(2, "KeyError", null), letter(3, null, "orders")];

  it("are those of an error and of a topic", () => {
    expect(choicesOf(letters, []).map(({ wish }) => wish)).toEqual([
      { exceptions: ["KeyError"] },
      { topics: ["orders"] },
    ]);
    expect(choicesOf([], [])).toEqual([]);
  });

  it("and first of all those that are chosen", () => {
    expect(choicesOf(letters, ["0@1"])[0]).toEqual({ title: "the letter 0@1", wish: { places: ["0@1"] } });
    expect(choicesOf(letters, ["0@1", "0@3"])[0]?.title).toBe("the 2 chosen letters");
  });
});
