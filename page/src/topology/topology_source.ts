import { signal } from "@preact/signals";
import { type Client, textOf } from "../server/client";
import type { TopologyDocument } from "./document";

/** The document of the topology, which is asked for when it is first needed, and again for another version. */
export class TopologySource {
  readonly document = signal<TopologyDocument | null>(null);
  readonly problem = signal("");
  private asked: number | null = null;

  constructor(
    private readonly client: Client,
    private readonly path: () => string,
  ) {}

  /** Asks for the topology of a version, unless it is there. After a failure the next call asks again. */
  async load(generation: number): Promise<void> {
    if (this.asked === generation) return;
    this.asked = generation;
    try {
      this.document.value = await this.client.get<TopologyDocument>(`${this.path()}topology`);
      this.problem.value = "";
    } catch (error) {
      this.problem.value = textOf(error);
      this.asked = null;
    }
  }
}
