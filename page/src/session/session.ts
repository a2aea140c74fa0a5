import { computed, signal } from "@preact/signals";
import { ProblemError, textOf } from "../common/problem";
import { Client } from "../server/client";
import { Connection, waitBefore } from "../server/connection";
import { FlameSource } from "../server/flame_source";
import { LiveDocument } from "../server/live_document";
import { tokenWanted, useToken } from "../server/token";
import { TopologySource } from "../server/topology_source";

interface Root {
  version: string;
  application?: string | null;
}

/** Everything that one opened page has: the client, the live document, and the connection that feeds it. */
export class Session {
  readonly client: Client;
  readonly document = new LiveDocument();
  readonly connection = signal<Connection | null>(null);
  /** Reason for which the page knows no application yet; empty while it asks. */
  readonly problem = signal("");
  /** The application's path, `v1/applications/<id>/`, once it is known. */
  readonly path = signal("");

  readonly topology: TopologySource;
  readonly flames: FlameSource;

  /** The row of the application; undefined before the first document. */
  readonly application = computed(() => this.document.sections.application.entries()[0]?.[1]);

  /** Changes if there may be another program: with its version, and with each connection. Empty before the first. */
  readonly program = computed(() =>
    this.document.known.value ? `${this.application.value?.generation ?? 1} ${this.document.wholes.value}` : "",
  );

  /** The part that gives no new figures, and since when; null while they come. */
  readonly silence = computed(() => {
    const connection = this.connection.value?.state.value;
    if (connection?.name === "waiting") return { what: "The server", since_ms: connection.since_ms };
    const since_ms = this.application.value?.silent_since_ms ?? null;
    return since_ms === null ? null : { what: "The application's coordinator", since_ms };
  });

  constructor(base: string) {
    this.client = new Client(base);
    this.topology = new TopologySource(this.client, () => this.path.peek());
    this.flames = new FlameSource(this.client, () => this.path.peek());
  }

  /** Learns which application runs here, and follows it. */
  async start(): Promise<void> {
    this.connection.value?.close();
    const path = await this.ask();
    if (path === null) return;
    this.path.value = path;
    const connection = new Connection(this.client, `${path}live`, this.document);
    this.connection.value = connection;
    await connection.run();
  }

  /** Starts again with another token. */
  signIn(token: string): void {
    useToken(token);
    this.flames.forget();
    void this.start();
  }

  private async ask(): Promise<string | null> {
    for (let tries = 1; ; tries += 1) {
      try {
        const root = await this.client.get<Root>("");
        this.problem.value = "";
        if (typeof root.application === "string") return `${root.application.replace(/^\//, "")}/`;
        tokenWanted.value = true;
        return null;
      } catch (error) {
        this.problem.value = textOf(error);
        if (error instanceof ProblemError && error.status === 401) return null;
      }
      await new Promise((resolve) => setTimeout(resolve, waitBefore(tries, Math.random())));
    }
  }
}
