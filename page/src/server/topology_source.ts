import { type ReadonlySignal, signal, useSignalEffect } from "@preact/signals";
import { textOf } from "../common/problem";
import type { Client } from "./client";
import { waitBefore } from "./connection";
import type { TopologyDocument } from "./topology_document";

/** The document of the topology, which is asked for when it is first needed, and again for another program. */
export class TopologySource {
  readonly document = signal<TopologyDocument | null>(null);
  readonly problem = signal("");
  private asked = "";

  constructor(
    private readonly client: Client,
    private readonly path: () => string,
  ) {}

  /** Asks for the topology of a program, unless it is there. After a failure it asks again by itself. */
  async load(program: string): Promise<void> {
    if (this.asked === program) return;
    this.asked = program;
    for (let tries = 1; this.asked === program; tries += 1) {
      try {
        this.take(await this.client.get<TopologyDocument>(`${this.path()}topology`));
        return;
      } catch (error) {
        this.problem.value = textOf(error);
      }
      await new Promise((resolve) => setTimeout(resolve, waitBefore(tries + 2, Math.random())));
    }
  }

  /** The same topology keeps its picture, and so the part of it that is looked at. */
  private take(found: TopologyDocument): void {
    this.problem.value = "";
    const known = this.document.peek();
    if (known?.fingerprint !== found.fingerprint || known.generation !== found.generation) this.document.value = found;
  }
}

interface WithTopology {
  readonly program: ReadonlySignal<string>;
  readonly topology: TopologySource;
}

/** Asks for the topology while a view that shows it is open. */
export function useTopology({ program, topology }: WithTopology): void {
  useSignalEffect(() => {
    if (program.value !== "") void topology.load(program.value);
  });
}
