import { useEffect } from "preact/hooks";
import { ShareBar } from "../common/bar";
import { Problem } from "../common/dialog";
import { count, counted, percent } from "../common/numbers";
import { Table } from "../common/table";
import { visible } from "../common/text";
import { written } from "../common/values";
import { useAnswer } from "../server/requests";
import type { components } from "../server/schema";
import { hashOf } from "../session/route";
import type { Session } from "../session/session";
import { ShownContent } from "./shown";

type Schemas = components["schemas"];
type KeyCountsBody = Schemas["KeyCountsBody"];
type KeyCount = Schemas["KeyCountBody"];

const COLUMNS = [
  { title: "Key" },
  { title: "Partition", right: true },
  { title: "Records", right: true },
  { title: "Share" },
];
const LONGEST_KEY = 60;
/** Number of records from which a share of one key is no accident. */
const MANY = 100;

/** The most frequent keys of the newest records of a topic, or of one partition. They are counted when the button is
 * pressed; of a partition that the address names, at once. */
export function Keys({ session, topic, partition }: { session: Session; topic: string; partition: number | null }) {
  const of = partition === null ? "" : `?partition=${partition}`;
  const path = `topics/${encodeURIComponent(topic)}/keys${of}`;
  const { found, busy, problem, look } = useAnswer<KeyCountsBody>(session, path);
  // The component is keyed by the topic and the partition.
  useEffect(() => {
    if (partition !== null) look();
  }, []);
  return (
    <>
      <div class="bar">
        <button type="button" onClick={look} disabled={busy.value}>
          {busy.value ? "Counting …" : found.value === null ? "Count keys" : "Count again"}
        </button>
        <span class="quiet">
          {partition === null ? "of the newest 1,000 records" : `of the newest 1,000 records of partition ${partition}`}
        </span>
        {partition === null ? null : <a href={hashOf("records", topic)}>All partitions</a>}
      </div>
      <div aria-live="polite">
        {problem.value === null ? null : <Problem error={problem.value} />}
        {found.value === null ? null : <p class="keys">{sentenceOf(found.value, partition)}</p>}
      </div>
      {found.value === null ? null : <KeyTable topic={topic} found={found.value} />}
    </>
  );
}

/** Returns the share of the most frequent key in words. */
export function sentenceOf(found: KeyCountsBody, partition: number | null): string {
  const where = partition === null ? "" : ` of partition ${partition}`;
  const first = found.keys[0];
  if (first === undefined) return `There are no records${where}.`;
  const have = first.records === 1 ? "has" : "have";
  const share = percent(first.records / found.records);
  const hot =
    found.records >= MANY && first.records >= found.records / 2
      ? " All records of a key are in one partition, so one task processes them: more partitions or actors do not help."
      : "";
  const stopped = found.stopped === null ? "" : ` Newer ones may be missing: ${visible(found.stopped)}.`;
  return (
    `Of the newest ${counted(found.records, "record")}${where}, ${counted(first.records, "record")} (${share}) ${have} the key ` +
    `${textOf(first)}. There ${found.different === 1 ? "is 1 key" : `are ${count(found.different)} keys`} among them.${hot}${stopped}`
  );
}

function textOf({ key }: KeyCount): string {
  return key === null
    ? "null"
    : visible(written(key.value, key.form === "decoded" ? "json" : "text") ?? "", LONGEST_KEY);
}

function KeyTable({ topic, found }: { topic: string; found: KeyCountsBody }) {
  return (
    <Table caption="Most frequent keys" columns={COLUMNS}>
      {found.keys.map((each, index) => (
        <tr key={index}>
          <th scope="row" class="stored">
            <ShownContent shown={each.key} />
          </th>
          <td class="right">
            <a href={hashOf("records", `${topic}/${each.partition}`)}>{each.partition}</a>
          </td>
          <td class="right">{count(each.records)}</td>
          <td>
            <ShareBar share={each.records / found.records} />
          </td>
        </tr>
      ))}
    </Table>
  );
}
