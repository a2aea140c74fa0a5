import { describe, expect, it } from "vitest";
import { bytes, count, milliseconds, moment, percent, rate, seconds, short, UNKNOWN, utc } from "../src/common/numbers";

describe("figures", () => {
  it("are an en dash if they are not known, or no number", () => {
    for (const value of [null, undefined, Number.NaN, Number.POSITIVE_INFINITY, "7" as unknown as number]) {
      for (const text of [bytes, count, milliseconds, percent, rate, seconds, short]) expect(text(value)).toBe(UNKNOWN);
      expect(moment(value, 0)).toBe(UNKNOWN);
      expect(utc(value)).toBe(UNKNOWN);
    }
    expect(moment(1e300, 0)).toBe(UNKNOWN);
    expect(utc(1e300)).toBe("1e+300 ms");
    expect(utc(1)).toBe("1970-01-01T00:00:00.001Z");
  });

  it.each([
    [0, "0"],
    [0.04, "< 0.1"],
    [0.43, "0.4"],
    [1, "1.00"],
    [9.99, "9.99"],
    [9.996, "10.0"],
    [99.96, "100"],
    [1234.4, "1,234"],
    [9999, "9,999"],
    [12_345, "12.3 k"],
    [999_400, "999 k"],
    [1_234_567, "1.23 M"],
    [5e9, "5.00 G"],
  ])("%d is short for %s", (value, text) => expect(short(value)).toBe(text));

  it.each([
    [0, "0 s"],
    [0.34, "0.3 s"],
    [41, "41 s"],
    [120, "2 min"],
    [133, "2 min 13 s"],
    [599.6, "10 min"],
    [720, "12 min"],
    [10_800, "3 h"],
    [432_000, "5 days"],
  ])("%d seconds are %s", (value, text) => expect(seconds(value)).toBe(text));

  it.each([
    [0, "0 B"],
    [999, "999 B"],
    [1_000, "1.00 kB"],
    [5_300_000, "5.30 MB"],
    [2.5e9, "2.50 GB"],
  ])("%d bytes are %s", (value, text) => expect(bytes(value)).toBe(text));

  it.each([
    [0, "0 %"],
    [0.001, "< 1 %"],
    [0.01, "1 %"],
    [0.98, "98 %"],
  ])("a share of %d is %s", (value, text) => expect(percent(value)).toBe(text));

  it("show the date of a moment of another day", () => {
    const noon = new Date(2026, 10, 28, 12, 30, 5).getTime();
    expect(moment(noon, noon + 1_000)).toBe("12:30:05");
    expect(moment(noon, noon + 86_400_000)).toBe("2026-11-28 12:30:05");
  });
});
