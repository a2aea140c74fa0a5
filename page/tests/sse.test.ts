import { describe, expect, it, vi } from "vitest";
import { EventParser } from "../src/server/sse";

const STREAM =
  ': hello\r\nevent: whole\r\ndata: {"a":\r\ndata: 1}\r\n\r\n: beat\n\nevent: changes\ndata: {"b":"ü…"}\n\ndata:x\r\r';
const EVENTS = [
  { name: "whole", data: '{"a":\n1}' },
  { name: "changes", data: '{"b":"ü…"}' },
  { name: "message", data: "x" },
];

function parsed(pieces: readonly string[]) {
  const parser = new EventParser();
  // A line end is sure when the next character is known.
  return [...pieces, ":"].flatMap((piece) => parser.take(piece));
}

describe("the parser of event streams", () => {
  it("reads events, comments and all three line ends", () => {
    expect(parsed([STREAM])).toEqual(EVENTS);
  });

  it("gives the same events wherever the stream is cut", () => {
    for (let cut = 0; cut <= STREAM.length; cut += 1) {
      for (let second = cut; second <= STREAM.length; second += 1) {
        expect(parsed([STREAM.slice(0, cut), STREAM.slice(cut, second), STREAM.slice(second)])).toEqual(EVENTS);
      }
    }
  });

  it("gives nothing for an event without data, nor for one that is not complete", () => {
    expect(parsed(["event: whole\n\nevent: changes\ndata: 1\n"])).toEqual([]);
  });

  it("looks through each piece of a long line once", () => {
    const split = vi.spyOn(String.prototype, "split");
    const parser = new EventParser();
    const piece = "x".repeat(100);
    for (let number = 0; number < 1000; number += 1) parser.take(number === 0 ? `data:${piece}` : piece);
    const looked = split.mock.contexts.reduce((sum: number, text) => sum + String(text).length, 0);
    split.mockRestore();
    expect(looked).toBeLessThan(110_000);
    expect(parser.take("\n\n")).toEqual([{ name: "message", data: "x".repeat(100_000) }]);
  });
});
