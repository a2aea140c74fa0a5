import { Content } from "../common/content";
import { bytes } from "../common/numbers";
import { Foreign, visible } from "../common/text";
import type { components } from "../server/schema";
import type { Letter } from "./places";

export type Shown = components["schemas"]["ShownBody"];

/** A key, a value or a header: decoded, or as text or base64 with the reason. */
export function ShownContent({ shown }: { shown: Shown | null }) {
  if (shown === null) return <span class="quiet">null</span>;
  const note = [
    shown.form === "decoded" ? "" : shown.form,
    shown.clipped ? `the beginning of ${bytes(shown.size)}` : "",
  ];
  const text = note.filter((part) => part !== "").join(", ");
  return (
    <>
      <Content value={shown.value} form={shown.form === "decoded" ? "json" : "text"} />
      {text === "" ? null : <span class="quiet">{text}</span>}
      {shown.problem === null ? null : <p class="quiet">{visible(shown.problem, 300)}</p>}
    </>
  );
}

/** Topic, partition and offset of the record; a dash for what the letter does not name. */
export function Origin({ letter: { origin } }: { letter: Letter }) {
  const place =
    origin.partition === null && origin.offset === null ? "" : ` ${origin.partition ?? "–"}@${origin.offset ?? "–"}`;
  if (origin.topic === null) return <>–{place}</>;
  return (
    <>
      <Foreign text={visible(origin.topic, 260)} />
      {place}
    </>
  );
}
