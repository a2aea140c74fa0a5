import { type ReadonlySignal, type Signal, useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Client } from "./client";
import { waitBefore } from "./connection";

/** The requests of one component, of which one is open at a time. */
interface Requests {
  readonly busy: Signal<boolean>;
  /** The error of the last request; null without one. */
  readonly problem: Signal<unknown>;
  /** Asks, and gives the answer to `take`. Ends a request that is still open. `untilAnswered`: asks again by itself
   * after a failure, for what a view needs and its reader has no button for. */
  send: <Answer>(
    ask: (signal: AbortSignal) => Promise<Answer>,
    take: (answer: Answer) => void,
    untilAnswered?: boolean,
  ) => Promise<void>;
  /** Ends a request that is still open, and forgets the problem. */
  clear: () => void;
}

/** Returns the requests of a component. They end with it. */
export function useRequests(): Requests {
  const busy = useSignal(false);
  const problem = useSignal<unknown>(null);
  const open = useRef<AbortController | null>(null);
  useEffect(() => () => open.current?.abort(), []);

  async function send<Answer>(
    ask: (signal: AbortSignal) => Promise<Answer>,
    take: (answer: Answer) => void,
    untilAnswered = false,
  ) {
    clear();
    const mine = new AbortController();
    open.current = mine;
    busy.value = true;
    for (let tries = 1; !mine.signal.aborted; tries += 1) {
      try {
        const answer = await ask(mine.signal);
        if (mine.signal.aborted) break;
        problem.value = null;
        take(answer);
        break;
      } catch (error) {
        if (!mine.signal.aborted) problem.value = error;
      }
      if (!untilAnswered) break;
      await new Promise((resolve) => setTimeout(resolve, waitBefore(tries + 2, Math.random())));
    }
    if (open.current === mine) busy.value = false;
  }

  function clear() {
    open.current?.abort();
    busy.value = false;
    problem.value = null;
  }

  return { busy, problem, send, clear };
}

interface OfApplication {
  readonly client: Client;
  readonly path: ReadonlySignal<string>;
}

/** The answer to the one question of a component. */
interface Answer<Body> extends Pick<Requests, "busy" | "problem"> {
  /** Null before the first answer. */
  readonly found: Signal<Body | null>;
  /** Asks, and asks again. */
  readonly look: () => void;
}

/** Asks for what users have stored, when `look` is called. `path` is relative to the application. */
export function useAnswer<Body>({ client, path: base }: OfApplication, path: string): Answer<Body> {
  const found = useSignal<Body | null>(null);
  const { busy, problem, send } = useRequests();
  function look() {
    void send(
      (signal) => client.exact<Body>(`${base.peek()}${path}`, signal),
      (answer) => {
        found.value = answer;
      },
    );
  }
  return { found, busy, problem, look };
}

/** Asks for a document that depends on the program, and again for another program and after a failure. `path` is
 * relative to the application; `found` is null before the first answer. */
export function useProgramDocument<Body>(
  of: OfApplication & { readonly program: ReadonlySignal<string> },
  path: string,
) {
  const { client, path: base, program } = of;
  const found = useSignal<Body | null>(null);
  const { problem, send } = useRequests();
  useSignalEffect(() => {
    if (program.value === "") return;
    void send(
      (signal) => client.get<Body>(`${base.peek()}${path}`, signal),
      (answer) => {
        found.value = answer;
      },
      true,
    );
  });
  return { found, problem };
}
