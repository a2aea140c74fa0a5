import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { Problem } from "../common/dialog";
import { visible } from "../common/text";
import { RecordTable } from "../records/peek";
import { useRequests } from "../server/requests";
import type { components } from "../server/schema";
import type { Session } from "../session/session";
import { hasAddress } from "./queries";

type KeyRecords = components["schemas"]["KeyRecordsBody"];
type From = "life" | "inputs";

/** A key's life: what the store's changelog still has of it, or the input records with this key. */
export function KeyLife({ session, store }: { session: Session; store: string }) {
  const key = useSignal("");
  const from = useSignal<From>("life");
  const found = useSignal<KeyRecords | null>(null);
  const { busy, problem, send } = useRequests();
  const asked = useRef("");

  function ask(cursor: string | null) {
    const before = cursor === null ? [] : (found.peek()?.records ?? []);
    const path = cursor === null ? asked.current : `${asked.current}?cursor=${encodeURIComponent(cursor)}`;
    void send(
      (signal) => session.client.exact<KeyRecords>(path, signal),
      (next) => {
        found.value = { ...next, records: [...before, ...next.records] };
      },
    );
  }

  return (
    <>
      <h3>A key's life</h3>
      <form
        class="bar"
        onSubmit={(event) => {
          event.preventDefault();
          if (!hasAddress(key.value)) return;
          found.value = null;
          const [name, of] = [encodeURIComponent(store), encodeURIComponent(key.value.toWellFormed())];
          asked.current = `${session.path.peek()}stores/${name}/${from.value}/${of}`;
          ask(null);
        }}
      >
        <label>
          Key of the records
          <input
            value={key.value}
            spellcheck={false}
            autocomplete="off"
            onInput={(event) => {
              key.value = event.currentTarget.value;
            }}
          />
        </label>
        <label>
          Records of
          <select
            value={from.value}
            onChange={(event) => {
              from.value = event.currentTarget.value as From;
            }}
          >
            <option value="life">the changelog: its versions</option>
            <option value="inputs">the input that places the key</option>
          </select>
        </label>
        <button type="submit" disabled={busy.value || !hasAddress(key.value)}>
          {busy.value ? "Reading …" : "Read"}
        </button>
      </form>
      <div aria-live="polite">{problem.value === null ? null : <Problem error={problem.value} />}</div>
      {found.value === null ? null : <Found found={found.value} onMore={ask} />}
    </>
  );
}

function Found({ found, onMore }: { found: KeyRecords; onMore: (cursor: string) => void }) {
  const { cursor } = found;
  return (
    <>
      <p class="quiet">
        Of {visible(found.topic)}, the newest first
        {found.compacted === true ? "; the topic is compacted, so older records may be gone" : ""}
        {found.committed_only ? "; of committed transactions only" : ""}
        {found.stopped === null ? "" : `; the read ended early: ${visible(found.stopped)}`}.
      </p>
      <RecordTable records={found.records} />
      {cursor === null ? null : (
        <button type="button" onClick={() => onMore(cursor)}>
          Older records
        </button>
      )}
    </>
  );
}
