import { useSignal } from "@preact/signals";
import { Content } from "../common/content";
import { CopyButton } from "../common/copy";
import { counted, utc } from "../common/numbers";
import { Table } from "../common/table";
import { visible } from "../common/text";
import { type Form, written } from "../common/values";
import type { components } from "../server/schema";

/** A row of any kind of store. */
export type StoredRow = Schemas["RowBody"] &
  Partial<Pick<Schemas["WindowedBody"], "window">> &
  Partial<Pick<Schemas["VersionBody"], "valid_to">>;

type Schemas = components["schemas"];

const FORMS: readonly [Form, string][] = [
  ["json", "JSON"],
  ["text", "text"],
  ["bytes", "bytes, of base64"],
];

/** The rows of an answer. `more` gets the next page; null on the last one. */
export function Rows({ rows, more }: { rows: readonly StoredRow[]; more: (() => void) | null }) {
  const form = useSignal<Form>("json");
  const windows = rows.some((row) => row.window !== undefined);
  const versions = rows.some((row) => row.valid_to !== undefined);
  const columns = [
    { title: "Key" },
    ...(windows ? [{ title: "Window" }] : []),
    { title: "Value" },
    { title: "Timestamp" },
    ...(versions ? [{ title: "Valid until" }] : []),
    { title: "Copy" },
  ];
  if (rows.length === 0) return <p class="quiet">No rows.</p>;
  return (
    <>
      <div class="bar">
        <span>
          {counted(rows.length, "row")}
          {more === null ? "" : ", and more"}
        </span>
        <label>
          Values as
          <select
            value={form.value}
            onChange={(event) => {
              form.value = event.currentTarget.value as Form;
            }}
          >
            {FORMS.map(([name, title]) => (
              <option key={name} value={name}>
                {title}
              </option>
            ))}
          </select>
        </label>
      </div>
      <Table caption="Rows of the answer" columns={columns}>
        {rows.map((row, index) => (
          // Rows are only added, at the end.
          <Row key={index} row={row} form={form.value} windows={windows} versions={versions} />
        ))}
      </Table>
      {more === null ? null : (
        <button type="button" onClick={more}>
          Next page
        </button>
      )}
    </>
  );
}

function Row(properties: { row: StoredRow; form: Form; windows: boolean; versions: boolean }) {
  const { row, form, windows, versions } = properties;
  return (
    <tr>
      <th scope="row" class="stored">
        <Content value={row.key} form={form === "json" ? "json" : "text"} />
      </th>
      {windows ? (
        <td>
          {row.window?.start_time ?? utc(row.window?.start)}
          <br />
          {row.window?.end_time ?? utc(row.window?.end)}
        </td>
      ) : null}
      <td class="stored">
        <Content value={row.value} form={form} />
        {row.problem ? <p class="quiet">{visible(row.problem)}</p> : null}
      </td>
      <td>{utc(row.timestamp)}</td>
      {versions ? <td>{row.valid_to === null ? "latest" : utc(row.valid_to)}</td> : null}
      <td>
        <CopyButton what="the value" text={() => written(row.value, form) ?? written(row.value, "json") ?? ""} />
      </td>
    </tr>
  );
}
