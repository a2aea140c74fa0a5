import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { CopyButton } from "../common/copy";
import { Problem } from "../common/dialog";
import { count, utc } from "../common/numbers";
import { Table } from "../common/table";
import { Foreign, visible } from "../common/text";
import { parsed, written } from "../common/values";
import type { components } from "../server/schema";
import type { Session } from "../session/session";
import { ShownContent } from "./shown";

type Schemas = components["schemas"];
type PeekBody = Schemas["PeekBody"];

const COLUMNS = [
  { title: "Partition", right: true },
  { title: "Offset", right: true },
  { title: "Timestamp" },
  { title: "Key" },
  { title: "Value" },
  { title: "Headers" },
  { title: "Copy" },
] as const;

/** The newest records of a topic. They are read when the topic is chosen, and when the button is pressed. */
export function Peek({ session, topic }: { session: Session; topic: string }) {
  const found = useSignal<PeekBody | null>(null);
  const problem = useSignal<unknown>(null);
  const busy = useSignal(false);
  const open = useRef<AbortController | null>(null);
  async function look() {
    open.current?.abort();
    const mine = new AbortController();
    open.current = mine;
    busy.value = true;
    try {
      const path = `${session.path.peek()}topics/${encodeURIComponent(topic)}/peek`;
      found.value = parsed(await session.client.text(path, mine.signal)) as PeekBody;
      problem.value = null;
    } catch (error) {
      if (!mine.signal.aborted) problem.value = error;
    } finally {
      if (open.current === mine) busy.value = false;
    }
  }
  useEffect(() => {
    void look();
    return () => open.current?.abort();
    // `look` is new each time, and reads the topic alone, by which this component is keyed.
  }, []);
  return (
    <>
      <h4>Newest records</h4>
      <div class="bar">
        <button type="button" onClick={look} disabled={busy.value}>
          {busy.value ? "Reading …" : "Read again"}
        </button>
        {found.value === null ? null : <Summary found={found.value} />}
      </div>
      <div aria-live="polite">{problem.value === null ? null : <Problem error={problem.value} />}</div>
      {found.value === null ? null : <RecordTable records={found.value.records} />}
    </>
  );
}

function Summary({ found }: { found: PeekBody }) {
  return (
    <span class="quiet">
      The newest {count(found.records.length)} records
      {found.committed_only ? ", of committed transactions only" : ""}
      {found.stopped === null ? "" : `. Newer ones may be missing: ${visible(found.stopped)}`}
    </span>
  );
}

type ShownRecord = Schemas["RecordBody"] & Partial<Pick<Schemas["VersionOfKeyBody"], "window">>;

/** Records of a topic, one a row. */
export function RecordTable({ records }: { records: readonly ShownRecord[] }) {
  return (
    <Table caption="Records of the topic" columns={COLUMNS}>
      {records.length === 0 ? (
        <tr>
          <td colSpan={COLUMNS.length} class="quiet">
            No records.
          </td>
        </tr>
      ) : null}
      {records.map((record) => (
        <tr key={`${record.partition} ${record.offset}`}>
          <td class="right">{record.partition}</td>
          <th scope="row" class="right">
            {count(record.offset)}
          </th>
          <td>{utc(record.timestamp)}</td>
          <td class="stored">
            <ShownContent shown={record.key} />
            {record.window ? (
              <span class="quiet">
                {utc(record.window.start)} – {utc(record.window.end)}
              </span>
            ) : null}
          </td>
          <td class="stored">
            <ShownContent shown={record.value} />
          </td>
          <td class="stored">
            {record.headers.map((header, index) => (
              <div key={`${index} ${header.name}`}>
                <Foreign class="quiet" text={header.name} /> <ShownContent shown={header.value} />
              </div>
            ))}
            {record.header_count > record.headers.length ? (
              <span class="quiet">{count(record.header_count - record.headers.length)} more</span>
            ) : null}
          </td>
          <td>
            <CopyButton what="the record" text={() => written(record, "json") ?? ""} />
          </td>
        </tr>
      ))}
    </Table>
  );
}
