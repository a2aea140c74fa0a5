import { signal } from "@preact/signals";
import { ProblemError, textOf } from "../common/problem";
import type { Client } from "./client";
import type { Changes } from "./document";
import type { LiveDocument } from "./live_document";
import { EventParser } from "./sse";

export type ConnectionState =
  | { name: "connecting" }
  | { name: "live" }
  | { name: "waiting"; reason: string; since_ms: number };

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;
/** The server sends at least a heartbeat each 15 s. */
const SILENT_AFTER_MS = 40_000;

/** Returns the time before try number `tries`, from 1. `chance` in 0..1 keeps pages from coming back all at once. */
export function waitBefore(tries: number, chance: number): number {
  const longest = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (tries - 1));
  return longest / 2 + (longest / 2) * chance;
}

/** Keeps a live document up to date, and connects again when the stream ends. */
export class Connection {
  readonly state = signal<ConnectionState>({ name: "connecting" });
  private readonly ended = new AbortController();
  private tries = 0;

  constructor(
    private readonly client: Client,
    private readonly path: string,
    private readonly document: LiveDocument,
  ) {}

  /** Follows the stream until `close`, or until the server wants another token. */
  async run(): Promise<void> {
    while (!this.ended.signal.aborted) {
      try {
        await this.follow();
        this.lost("The server has ended the stream.");
      } catch (error) {
        if (this.ended.signal.aborted) return;
        this.lost(textOf(error));
        if (error instanceof ProblemError && error.status === 401) return;
      }
      this.tries += 1;
      await this.pause(waitBefore(this.tries, Math.random()));
    }
  }

  /** Ends the stream for good. */
  close(): void {
    this.ended.abort();
  }

  private lost(reason: string): void {
    const before = this.state.peek();
    const since_ms = before.name === "waiting" ? before.since_ms : Date.now();
    this.state.value = { name: "waiting", reason, since_ms };
  }

  private async follow(): Promise<void> {
    const silence = new AbortController();
    const signal = AbortSignal.any([this.ended.signal, silence.signal]);
    const silent = () => silence.abort(new ProblemError("No answer", "The server is silent.", 0));
    let timer = setTimeout(silent, SILENT_AFTER_MS);
    try {
      const reader = (await this.client.stream(this.path, signal)).getReader();
      const decoder = new TextDecoder();
      const parser = new EventParser();
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        clearTimeout(timer);
        timer = setTimeout(silent, SILENT_AFTER_MS);
        for (const event of parser.take(decoder.decode(part.value, { stream: true })))
          this.take(event.name, event.data);
      }
    } catch (error) {
      throw silence.signal.aborted ? silence.signal.reason : error;
    } finally {
      clearTimeout(timer);
      silence.abort(); // if an event cannot be read, the stream is still open
    }
  }

  private take(name: string, data: string): void {
    if (name !== "whole" && name !== "changes") return;
    this.document.apply(JSON.parse(data) as Changes, name === "whole");
    this.tries = 0;
    if (this.state.peek().name !== "live") this.state.value = { name: "live" };
  }

  private pause(ms: number): Promise<void> {
    const { signal } = this.ended;
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", end); // a page may try for days
        resolve();
      };
      const timer = setTimeout(end, ms);
      signal.addEventListener("abort", end);
    });
  }
}
