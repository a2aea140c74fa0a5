/** One event of a `text/event-stream`. */
export interface ServerEvent {
  name: string;
  data: string;
}

/** Reads events from a stream of text that arrives in pieces of any length. */
export class EventParser {
  /** The beginning of a line whose end has not come yet. */
  private rest = "";
  /** A carriage return at the end of a piece may be the first half of a line end: it waits for the next piece. */
  private held = "";
  private name = "";
  private data: string[] = [];

  /** Takes the next piece. Returns the events that are complete with it. */
  take(piece: string): ServerEvent[] {
    const text = this.held + piece;
    this.held = text.endsWith("\r") ? "\r" : "";
    const lines = text.slice(0, text.length - this.held.length).split(/\r\n|\n|\r/);
    // A document of many tasks is one line of megabytes in many pieces: each is looked through once, and added.
    lines[0] = this.rest + (lines[0] ?? "");
    this.rest = lines.pop() ?? "";
    const events: ServerEvent[] = [];
    for (const line of lines) {
      const event = this.line(line);
      if (event !== null) events.push(event);
    }
    return events;
  }

  private line(line: string): ServerEvent | null {
    if (line === "") return this.end();
    const colon = line.indexOf(":");
    if (colon === 0) return null; // a comment
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.name = value;
    else if (field === "data") this.data.push(value);
    return null;
  }

  private end(): ServerEvent | null {
    const event = this.data.length > 0 ? { name: this.name || "message", data: this.data.join("\n") } : null;
    this.name = "";
    this.data = [];
    return event;
  }
}
