import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { Problem } from "../common/dialog";
import { Foreign } from "../common/text";
import { useRequests } from "../server/requests";
import type { components } from "../server/schema";
import type { Session } from "../session/session";
import { addressOf, type Field, hasAddress, labelOf, NO_QUESTION, type Question, queriesOf } from "./queries";
import { Rows, type StoredRow } from "./rows";

/** A store as `GET …/stores` lists it. */
export type StoreEntry = components["schemas"]["StoreBody"];

interface Page {
  entries: StoredRow[];
  cursor: string | null;
}

/** The queries of one store, and the rows of the answer. */
export function StoreQuery({ session, store }: { session: Session; store: StoreEntry }) {
  const queries = queriesOf(store.kind);
  const chosen = useSignal(queries[0]?.name ?? "key");
  const asked = useSignal<Question>(NO_QUESTION);
  const answer = useStoreAnswer(session);
  const query = queries.find(({ name }) => name === chosen.value);
  if (query === undefined) return <p class="quiet">Stores of the kind “{store.kind}” answer no queries.</p>;
  const set = (change: Partial<Question>) => {
    asked.value = { ...asked.value, ...change };
  };
  const incomplete = query.fields.includes("key") && !hasAddress(asked.value.key);
  const address = (cursor: string | null) =>
    session.path.peek() + addressOf(store.name, store.kind, query.name, asked.peek(), cursor);
  return (
    <>
      <h3>
        <Foreign text={store.name} />
      </h3>
      <form
        class="bar"
        onSubmit={(event) => {
          event.preventDefault();
          if (!incomplete) answer.ask(address, query.paged);
        }}
      >
        <label>
          Query
          <select
            value={chosen.value}
            onChange={(event) => {
              chosen.value = event.currentTarget.value as typeof chosen.value;
              answer.clear();
            }}
          >
            {queries.map(({ name, title }) => (
              <option key={name} value={name}>
                {title}
              </option>
            ))}
          </select>
        </label>
        {query.fields.map((field) => (
          <QuestionField
            key={field}
            field={field}
            label={labelOf(field, store.kind, query.name)}
            asked={asked.value}
            onChange={set}
          />
        ))}
        <label>
          State
          <select
            value={asked.value.committed ? "committed" : "latest"}
            onChange={(event) => set({ committed: event.currentTarget.value === "committed" })}
          >
            <option value="latest">latest: all that is processed</option>
            <option value="committed">committed only</option>
          </select>
        </label>
        {query.paged ? (
          <label>
            Order
            <select
              value={asked.value.descending ? "desc" : "asc"}
              onChange={(event) => set({ descending: event.currentTarget.value === "desc" })}
            >
              <option value="asc">forwards</option>
              <option value="desc">backwards</option>
            </select>
          </label>
        ) : null}
        <button type="submit" disabled={incomplete}>
          Ask
        </button>
      </form>
      {query.fields.includes("time_from") || query.fields.includes("time_to") ? (
        <p class="quiet">Times: ms since 1970, or ISO 8601 with the offset from UTC, such as 2026-01-01T00:00:00Z.</p>
      ) : null}
      <div aria-live="polite">
        {answer.problem.value === null ? null : <Problem error={answer.problem.value} />}
        {answer.busy.value ? <p class="quiet">Asking …</p> : null}
      </div>
      {answer.rows.value === null ? null : (
        <Rows rows={answer.rows.value} more={answer.cursor.value === null ? null : () => answer.next()} />
      )}
    </>
  );
}

type Change = (change: Partial<Question>) => void;

function QuestionField(properties: { field: Field; label: string; asked: Question; onChange: Change }) {
  const { field, label, asked, onChange } = properties;
  const name = field === "prefix" ? "key" : field;
  return (
    <label>
      {label}
      <input
        value={asked[name]}
        spellcheck={false}
        autocomplete="off"
        onInput={(event) => onChange({ [name]: event.currentTarget.value })}
      />
    </label>
  );
}

/** The answer to the last question. A newer question, and leaving the store, end one that is still open. */
function useStoreAnswer(session: Session) {
  const rows = useSignal<StoredRow[] | null>(null);
  const cursor = useSignal<string | null>(null);
  const { busy, problem, ...requests } = useRequests();
  const address = useRef<(cursor: string | null) => string>(() => "");

  function load(paged: boolean, from: string | null): void {
    void requests.send(
      (signal) => session.client.exact<Page | StoredRow>(address.current(from), signal),
      (found) => {
        const page: Page = paged ? (found as Page) : { entries: [found as StoredRow], cursor: null };
        rows.value = [...(from === null ? [] : (rows.peek() ?? [])), ...page.entries];
        cursor.value = page.cursor;
      },
    );
  }

  function clear(): void {
    requests.clear();
    rows.value = null;
    cursor.value = null;
  }

  return {
    rows,
    cursor,
    problem,
    busy,
    clear,
    ask: (of: (cursor: string | null) => string, paged: boolean) => {
      clear();
      address.current = of;
      load(paged, null);
    },
    next: () => load(true, cursor.peek()),
  };
}
