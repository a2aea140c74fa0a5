import { describe, expect, it } from "vitest";
import { sentenceOf } from "../src/records/keys";
import { topicPartOf } from "../src/records/subject";

type Counts = Parameters<typeof sentenceOf>[0];

function counts(keys: readonly (string | null)[], records: number, stopped: string | null = null): Counts {
  const shown = (value: string) => ({ form: "decoded" as const, value, size: 4, clipped: false, problem: null });
  return {
    topic: "orders",
    use: "read",
    committed_only: false,
    records,
    different: keys.length,
    keys: keys.map((key, index) => ({ key: key === null ? null : shown(key), partition: 3, records: index ? 1 : 187 })),
    looked: [],
    stopped,
  };
}

const HOT =
  " All records of a key are in one partition, so one task processes them: more partitions or actors do not help.";

describe("the most frequent key", () => {
  it("is named with its share", () => {
    expect(sentenceOf(counts(["acme", "x"], 200), 3)).toBe(
      'Of the newest 200 records of partition 3, 187 records (94 %) have the key "acme". There are 2 keys among them.' +
        HOT,
    );
  });
  it("may be null", () => {
    expect(sentenceOf(counts([null], 187), null)).toBe(
      "Of the newest 187 records, 187 records (100 %) have the key null. There is 1 key among them." + HOT,
    );
  });
  it("is not there without records", () => {
    expect(sentenceOf(counts([], 0), 3)).toBe("There are no records of partition 3.");
  });
  it("may be one record of one", () => {
    const one = counts(["acme"], 1);
    one.keys = one.keys.map((key) => ({ ...key, records: 1 }));
    expect(sentenceOf(one, null)).toBe(
      'Of the newest 1 record, 1 record (100 %) has the key "acme". There is 1 key among them.',
    );
  });
  it("has a note if the read ended early, and shows invisible characters", () => {
    const text = sentenceOf(counts(["a\u202eb"], 200, "4 seconds"), null);
    expect(text).toContain('"a\\u202eb"');
    expect(text).toContain("Newer ones may be missing: 4 seconds.");
  });
});

describe("a subject of the view of records", () => {
  it.each([
    ["orders", "orders", null],
    ["orders/3", "orders", 3],
    ["orders/x", "orders", null],
    ["orders/3/4", "orders", 3],
    ["", "", null],
  ])("%s", (subject, topic, partition) => {
    expect(topicPartOf(subject)).toEqual({ topic, partition });
  });
});
