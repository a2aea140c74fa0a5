import { useEffect } from "preact/hooks";
import { CopyButton } from "../common/copy";
import { Problem } from "../common/dialog";
import { count, counted, utc } from "../common/numbers";
import { Table } from "../common/table";
import { Foreign, visible } from "../common/text";
import { written } from "../common/values";
import { useAnswer } from "../server/requests";
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
  const { found, busy, problem, look } = useAnswer<PeekBody>(session, `topics/${encodeURIComponent(topic)}/peek`);
  // The component is keyed by the topic.
  useEffect(look, []);
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
      The newest {counted(found.records.length, "record")}
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
