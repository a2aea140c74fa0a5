import { useEffect, useRef } from "preact/hooks";
import { token } from "../server/token";
import type { Session } from "../session/session";

/** Asks for the token that the server wants. It is sent in a header, and forgotten with the tab. */
export function TokenForm({ session }: { session: Session }) {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  function send(event: Event) {
    event.preventDefault();
    const text = field.current?.value.trim() ?? "";
    if (text !== "") session.signIn(text);
  }
  return (
    <main id="main" tabIndex={-1}>
      <form class="token" onSubmit={send}>
        <h2>This application asks for a token</h2>
        <p>
          Enter a token with the scope <code>read</code>, or <code>operate</code> to change something as well. This tab
          keeps it until you close it.
        </p>
        {token.value === "" ? null : <p role="alert">The server does not accept the last token.</p>}
        <label for="token">Token</label>
        <input id="token" ref={field} type="password" autocomplete="off" spellcheck={false} required />
        <button type="submit">Continue</button>
      </form>
    </main>
  );
}
