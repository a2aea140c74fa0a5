import { describe, expect, it, vi } from "vitest";
import { ProblemError } from "../src/common/problem";
import { Client } from "../src/server/client";
import { Connection, waitBefore } from "../src/server/connection";
import { LiveDocument } from "../src/server/live_document";
import { token, tokenWanted, useToken } from "../src/server/token";

const BASE = "http://localhost/";

function answering(...answers: Response[]) {
  const asked: { url: string; headers: Headers }[] = [];
  const fetched = async (input: unknown, init?: RequestInit) => {
    asked.push({ url: String(input), headers: new Headers(init?.headers) });
    return answers.shift() ?? Response.error();
  };
  return { client: new Client(BASE, fetched as typeof fetch), asked };
}

describe("the client", () => {
  it("sends the token in a header, and nowhere else", async () => {
    useToken("s3cret");
    const { client, asked } = answering(Response.json({ ok: 1 }));
    await client.get("v1/applications/a/stores");
    expect(asked[0]?.headers.get("Authorization")).toBe("Bearer s3cret");
    expect(asked[0]?.url).not.toContain("s3cret");
    useToken("");
    expect(token.value).toBe("");
  });

  it("sends a token of any characters as UTF-8, as other clients do", async () => {
    useToken("“tökén”");
    const { client, asked } = answering(Response.json({ ok: 1 }));
    await client.get("v1/applications/a/stores");
    const sent = asked[0]?.headers.get("Authorization") ?? "";
    expect(new TextDecoder().decode(Uint8Array.from(sent, (each) => each.charCodeAt(0)))).toBe("Bearer “tökén”");
    useToken("");
  });

  it("raises the server's problem document, and asks for a token after a 401", async () => {
    const problem = { title: "A token is needed", detail: "send one", status: 401 };
    const { client } = answering(Response.json(problem, { status: 401 }), new Response("<h1>no</h1>", { status: 502 }));
    await expect(client.get("x")).rejects.toMatchObject({
      title: "A token is needed",
      detail: "send one",
      status: 401,
    });
    expect(tokenWanted.value).toBe(true);
    useToken("");
    expect(tokenWanted.value).toBe(false);
    await expect(client.post("x")).rejects.toMatchObject({ title: "Status 502" });
  });

  it("keeps each digit of a number that users have stored", async () => {
    const { client } = answering(new Response('{"value":12345678901234567890}'));
    const found = await client.exact("x", new AbortController().signal);
    expect(JSON.stringify(found)).toBe('{"value":12345678901234567890}');
  });

  it("names a server that does not answer", async () => {
    const failing = (async () => Promise.reject(new TypeError("failed to fetch"))) as unknown as typeof fetch;
    await expect(new Client(BASE, failing).get("x")).rejects.toBeInstanceOf(ProblemError);
  });
});

describe("the connection", () => {
  it("waits longer with each try, and not for ever", () => {
    const waits = [1, 2, 3, 4, 5, 6, 7, 40].map((tries) => waitBefore(tries, 1));
    expect(waits).toEqual([500, 1000, 2000, 4000, 8000, 15_000, 15_000, 15_000]);
    expect(waitBefore(1, 0)).toBe(250);
  });

  it("applies events cut anywhere, even within a character, and follows again when the stream ends", async () => {
    const bytes = new TextEncoder().encode('event: whole\ndata: {"topics": {"ü": {"records_in_per_s": 7}}}\n\n');
    const body = new ReadableStream({
      start(controller) {
        for (const byte of bytes) controller.enqueue(new Uint8Array([byte]));
        controller.close();
      },
    });
    const document = new LiveDocument();
    const { client, asked } = answering(new Response(body));
    const connection = new Connection(client, "live", document);
    const states: string[] = [];
    connection.state.subscribe((state) => {
      states.push(state.name);
      if (state.name === "waiting" && asked.length > 0) connection.close();
    });
    await connection.run();
    expect(document.sections.topics.value("ü")?.records_in_per_s).toBe(7);
    expect(states).toEqual(["connecting", "live", "waiting"]);
  });

  it("leaves no stream open after an event that it cannot read, and nothing that waits after a try", async () => {
    vi.useFakeTimers();
    const signals: (AbortSignal | null | undefined)[] = [];
    const fetched = async (_: unknown, init?: RequestInit) => {
      signals.push(init?.signal);
      const bad = new TextEncoder().encode("event: whole\ndata: {\n\n");
      return new Response(new ReadableStream({ start: (controller) => controller.enqueue(bad) }));
    };
    const waiting = new Set<unknown>();
    const add = vi.spyOn(AbortSignal.prototype, "addEventListener").mockImplementation((_, heard) => {
      waiting.add(heard);
    });
    const remove = vi.spyOn(AbortSignal.prototype, "removeEventListener").mockImplementation((_, heard) => {
      waiting.delete(heard);
    });
    const connection = new Connection(new Client(BASE, fetched as typeof fetch), "live", new LiveDocument());
    const running = connection.run();
    while (signals.length < 5) await vi.advanceTimersByTimeAsync(1_000);
    expect(signals.slice(0, -1).every((signal) => signal?.aborted)).toBe(true);
    expect(waiting.size).toBeLessThanOrEqual(1);
    connection.close();
    for (const heard of waiting) (heard as () => void)();
    await running;
    add.mockRestore();
    remove.mockRestore();
    vi.useRealTimers();
  });
});
