/** A refusal of the server, or a failure on the way to it: `title` is the short form, `detail` the sentence. */
export class ProblemError extends Error {
  constructor(
    readonly title: string,
    readonly detail: string,
    readonly status: number,
  ) {
    super(`${title}: ${detail}`);
  }
}

/** Returns the text of any error for people. */
export function textOf(error: unknown): string {
  if (error instanceof ProblemError) return `${error.title}: ${error.detail}`;
  return error instanceof Error ? error.message : String(error);
}
