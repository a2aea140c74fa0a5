import { describe, expect, it } from "vitest";
import { parsed, written } from "../src/common/values";
import { addressOf, hasAddress, NO_QUESTION, queriesOf } from "../src/stores/queries";

const names = (kind: string) => queriesOf(kind).map(({ name }) => name);

describe("the queries of a store", () => {
  it("are those of its kind", () => {
    expect(names("timestamped key-value")).toEqual(["key", "range", "prefix"]);
    expect(names("timestamped window")).toEqual(["times-of-key", "times"]);
    expect(names("session")).toEqual(["times-of-key", "times"]);
    expect(names("versioned")).toEqual(["version", "history"]);
    expect(names("one of your own")).toEqual([]);
  });

  it("have addresses in which any key is only a key", () => {
    const asked = { ...NO_QUESTION, key: "a/b?c#ü&\ud800", committed: true };
    expect(addressOf("s p", "key-value", "key", asked, null)).toBe(
      "stores/s%20p/keys/a%2Fb%3Fc%23%C3%BC%26%EF%BF%BD?isolation=committed",
    );
    expect(hasAddress("..")).toBe(false);
    expect(hasAddress("...")).toBe(true);
  });

  it("continue at the cursor of the page before", () => {
    const asked = { ...NO_QUESTION, from: "a", to: " b", descending: true };
    expect(addressOf("s", "key-value", "range", asked, "c+/=")).toBe(
      "stores/s/range?from=a&to=+b&order=desc&cursor=c%2B%2F%3D",
    );
  });

  it("name times as each kind of store does", () => {
    const asked = { ...NO_QUESTION, key: "k", time_from: "1", time_to: " 2 " };
    expect(addressOf("s", "window", "times-of-key", asked, null)).toBe("stores/s/windows/k?time_from=1&time_to=2");
    expect(addressOf("s", "session", "times", asked, null)).toBe("stores/s/sessions?earliest_end=1&latest_start=2");
    expect(addressOf("s", "versioned", "version", asked, null)).toBe("stores/s/versions/k?as_of=2");
    expect(addressOf("s", "versioned", "history", asked, null)).toBe("stores/s/history/k?time_from=1&time_to=2");
    expect(addressOf("s", "key-value", "prefix", asked, null)).toBe("stores/s/range?prefix=k");
  });
});

describe("values", () => {
  it("keep each digit", () => {
    const text = '{"n":12345678901234567890,"f":1.0,"deep":[9007199254740993]}';
    expect(written(parsed(text), "text")).toBe(text);
  });

  it("are shown as JSON, as text, or as bytes", () => {
    expect(written("a\nb", "json")).toBe('"a\\nb"');
    expect(written("a\nb", "text")).toBe("a\nb");
    expect(written({ a: [1, 2] }, "json")).toBe('{ "a": [ 1, 2 ] }');
    expect(written({ a: "x".repeat(99) }, "json")).toBe(`{\n  "a": "${"x".repeat(99)}"\n}`);
    expect(written("AAEC/w==", "bytes")).toBe("00 01 02 ff");
    expect(written(btoa("x".repeat(17)), "bytes")).toBe(`${Array(16).fill("78").join(" ")}\n78`);
    expect(written("no base64!", "bytes")).toBeNull();
    expect(written({ a: 1 }, "bytes")).toBeNull();
    expect(written(null, "text")).toBe("null");
  });
});
