import { Problem } from "../common/dialog";
import { bytes, count } from "../common/numbers";
import { Table } from "../common/table";
import { Foreign, visible } from "../common/text";
import { useProgramDocument } from "../server/requests";
import type { components } from "../server/schema";
import { hashOf } from "../session/route";
import type { Session } from "../session/session";
import type { ViewProperties } from "../session/views";
import { KeyLife } from "./key_life";
import { type StoreEntry, StoreQuery } from "./store_query";

const COLUMNS = [
  { title: "Store" },
  { title: "Kind" },
  { title: "Sub-topology", right: true },
  { title: "Partitions", right: true },
  { title: "Rows, approximately", right: true },
  { title: "Size", right: true },
  { title: "Tasks that restore", right: true },
] as const;

/** All stores, and queries of one of them. */
export function Stores({ session, subject }: ViewProperties) {
  const { found, problem } = useProgramDocument<components["schemas"]["StoresBody"]>(session, "stores");
  const stores = found.value?.stores;
  const chosen = stores?.find(({ name }) => name === subject);
  return (
    <>
      {problem.value === null ? null : <Problem error={problem.value} />}
      {stores === undefined ? null : <StoreTable session={session} stores={stores} subject={subject} />}
      {subject !== null && stores !== undefined && chosen === undefined ? (
        <p class="quiet" role="status">
          The application has no store <Foreign text={visible(subject, 80)} />.
        </p>
      ) : null}
      {chosen === undefined ? null : (
        <div key={chosen.name}>
          <StoreQuery session={session} store={chosen} />
          <KeyLife session={session} store={chosen.name} />
        </div>
      )}
    </>
  );
}

function StoreTable(properties: { session: Session; stores: readonly StoreEntry[]; subject: string | null }) {
  const { session, stores, subject } = properties;
  return (
    <Table caption="All stores" columns={COLUMNS}>
      {stores.length === 0 ? (
        <tr>
          <td colSpan={COLUMNS.length} class="quiet">
            The application has no store.
          </td>
        </tr>
      ) : null}
      {stores.map((store) => (
        <StoreRow key={store.name} store={store} session={session} current={store.name === subject} />
      ))}
    </Table>
  );
}

function StoreRow({ store, session, current }: { store: StoreEntry; session: Session; current: boolean }) {
  const row = session.document.sections.stores.value(store.name);
  return (
    <tr aria-current={current ? "true" : undefined}>
      <th scope="row">
        <a href={hashOf("stores", store.name)}>
          <Foreign text={store.name} />
        </a>
      </th>
      <td>{store.kind}</td>
      <td class="right">{store.subtopology}</td>
      <td class="right">{count(store.partitions)}</td>
      <td class="right">{count(row?.rows)}</td>
      <td class="right">{bytes(row?.bytes)}</td>
      <td class="right">{count(row?.restoring)}</td>
    </tr>
  );
}
