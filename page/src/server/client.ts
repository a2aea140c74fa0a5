import { ProblemError } from "../common/problem";
import { parsed } from "../common/values";
import { authorization, tokenWanted } from "./token";

/** The addresses of one application. All are relative to the page, so that it works behind a path of a proxy. */
export class Client {
  constructor(
    private readonly base: string,
    private readonly fetched: typeof fetch = (input, init) => fetch(input, init),
  ) {}

  /** Returns an answer's JSON. Raises ProblemError. */
  async get<Body>(path: string, signal?: AbortSignal): Promise<Body> {
    return this.json<Body>(path, signal === undefined ? {} : { signal });
  }

  /** Like `get`, for what users have stored: a number keeps each digit, as `common/values.ts` reads it. */
  async exact<Body>(path: string, signal: AbortSignal): Promise<Body> {
    return this.json<Body>(path, { signal }, parsed);
  }

  /** Sends a request that changes something. Raises ProblemError. */
  async post<Body>(path: string, body?: unknown): Promise<Body> {
    const content = body === undefined ? {} : { body: JSON.stringify(body) };
    const headers = body === undefined ? {} : { "Content-Type": "application/json" };
    return this.json<Body>(path, { method: "POST", headers, ...content });
  }

  /** Opens a stream of events. Raises ProblemError. */
  async stream(path: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    const answer = await this.ask(path, { signal, headers: { Accept: "text/event-stream" } });
    if (answer.body === null) throw new ProblemError("No stream", "The server has sent no content.", answer.status);
    return answer.body;
  }

  private async json<Body>(
    path: string,
    init: RequestInit,
    read: (text: string) => unknown = JSON.parse,
  ): Promise<Body> {
    const answer = await this.ask(path, { ...init, headers: { Accept: "application/json", ...init.headers } });
    const text = await answer.text();
    return (text === "" ? null : read(text)) as Body;
  }

  private async ask(path: string, init: RequestInit): Promise<Response> {
    const headers = { ...(init.headers as Record<string, string>), ...authorization() };
    let answer: Response;
    try {
      answer = await this.fetched(new URL(path, this.base), { ...init, headers, cache: "no-store" });
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") throw error;
      throw new ProblemError("No answer", "The server cannot be reached.", 0);
    }
    if (answer.ok) return answer;
    if (answer.status === 401) tokenWanted.value = true;
    throw await problemOf(answer);
  }
}

/** Returns the problem document of an answer as an error. An answer without one, as of a proxy, is named by status. */
export async function problemOf(answer: Response): Promise<ProblemError> {
  try {
    const { title, detail } = (await answer.json()) as Record<string, unknown>;
    if (typeof title === "string" && typeof detail === "string") return new ProblemError(title, detail, answer.status);
  } catch {
    // Not JSON.
  }
  return new ProblemError(`Status ${answer.status}`, "The server has refused the request.", answer.status);
}
