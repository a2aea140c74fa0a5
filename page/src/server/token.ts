import { signal } from "@preact/signals";

const KEY = "penstock.token";

/** The token of this tab; empty without one. Not kept when the tab is closed. */
export const token = signal(read());

/** True while the server refuses what it is asked for because of the token. */
export const tokenWanted = signal(false);

function read(): string {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return ""; // a browser without storage: the token lasts until the page is loaded again
  }
}

/** Uses another token from now on. */
export function useToken(text: string): void {
  try {
    if (text === "") sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, text);
  } catch {
    // As above.
  }
  tokenWanted.value = false;
  token.value = text;
}

/** Returns the headers that a request needs. */
export function authorization(): Record<string, string> {
  if (token.peek() === "") return {};
  // Headers have bytes: a character beyond them would raise an error, as if there was no server.
  const bytes = Array.from(new TextEncoder().encode(token.peek()), (byte) => String.fromCharCode(byte));
  return { Authorization: `Bearer ${bytes.join("")}` };
}
