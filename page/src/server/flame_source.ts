import { signal } from "@preact/signals";
import type { Client } from "./client";
import type { components } from "./schema";

export type FlameBody = components["schemas"]["FlameBody"];

/** Seconds for which the page has an actor looked at: the most that the server allows. */
export const FLAME_S = 10;

export type FlameState =
  | { name: "none" }
  | { name: "taking"; actor: string; began_ms: number }
  | { name: "taken"; actor: string; at_ms: number; body: FlameBody }
  | { name: "refused"; actor: string; error: unknown };

/** The last stacks that the page has asked for. They stay while another view is shown: taking them again needs time. */
export class FlameSource {
  readonly state = signal<FlameState>({ name: "none" });

  constructor(
    private readonly client: Client,
    private readonly path: () => string,
  ) {}

  /** Asks for the stacks of an actor, instead of those that were taken before. */
  async take(actor: string): Promise<void> {
    const taking: FlameState = { name: "taking", actor, began_ms: Date.now() };
    this.state.value = taking;
    let next: FlameState;
    try {
      const path = `${this.path()}actors/${encodeURIComponent(actor.toWellFormed())}/flame`;
      const body = await this.client.post<FlameBody>(path, { seconds: FLAME_S });
      next = { name: "taken", actor, at_ms: Date.now(), body };
    } catch (error) {
      next = { name: "refused", actor, error };
    }
    if (this.state.peek() === taking) this.state.value = next;
  }

  /** Forgets them, and those that are being taken. */
  forget(): void {
    this.state.value = { name: "none" };
  }
}
