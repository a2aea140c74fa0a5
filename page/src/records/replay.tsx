import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ConfirmDialog, Problem } from "../common/dialog";
import { counted } from "../common/numbers";
import { visible } from "../common/text";
import { useRequests } from "../server/requests";
import type { components } from "../server/schema";
import { Operation } from "../session/operation";
import type { Session } from "../session/session";
import type { Choice } from "./places";

type ReplayBody = components["schemas"]["ReplayBody"];

interface Properties {
  session: Session;
  choices: readonly Choice[];
  /** Is called with the outcome as a sentence. */
  onDone: (sentence: string) => void;
}

/** A button that replays letters. Absent without the scope `operate`, and if there is nothing to choose from. */
export function Replay({ session, choices, onDone }: Properties) {
  if (choices.length === 0) return null;
  return (
    <Operation
      session={session}
      title="Replay …"
      dialog={(close) => <ReplayDialog session={session} choices={choices} onDone={onDone} onClose={close} />}
    />
  );
}

/** Shows the plan of a replay, which a dry run gives, before it begins. */
function ReplayDialog(properties: Properties & { onClose: () => void }) {
  const { session, onDone, onClose } = properties;
  // The choices of the time at which the dialog was opened.
  const choices = useSignal(properties.choices).peek();
  const index = useSignal(0);
  // A plan belongs to one choice: until that of another one has come there is none, and nothing can be confirmed.
  const planned = useSignal<{ index: number; body: ReplayBody } | null>(null);
  const { problem, send } = useRequests();
  const wish = choices[index.value]?.wish;
  const path = `${session.path.peek()}dead-letters/replay`;
  useEffect(() => {
    const of = index.value;
    planned.value = null; // also an earlier one of this choice: no later failure leaves it to be confirmed
    void send(
      () => session.client.post<ReplayBody>(path, { ...wish, dry_run: true }),
      (body) => {
        planned.value = { index: of, body };
      },
    );
  }, [index.value]);
  const plan = planned.value?.index === index.value ? planned.value.body : null;
  const records = Object.values(plan?.to ?? {}).reduce((sum, each) => sum + each, 0);
  async function replay() {
    const done = await session.client.post<ReplayBody>(path, wish);
    onDone(`${counted(done.written, "record")} written again.`);
  }
  return (
    <ConfirmDialog
      title="Replay dead letters?"
      action={records === 0 ? "Replay" : `Replay ${counted(records, "record")}`}
      incomplete={records === 0}
      onConfirm={replay}
      onClose={onClose}
    >
      <label class="field">
        Letters
        <select
          value={index.value}
          onChange={(event) => {
            index.value = Number(event.currentTarget.value);
          }}
        >
          {choices.map(({ title }, at) => (
            <option key={title} value={at}>
              {visible(title, 120)}
            </option>
          ))}
        </select>
      </label>
      <div aria-live="polite">
        {problem.value === null ? null : <Problem error={problem.value} />}
        {plan === null && problem.value === null ? <p class="quiet">Reading the letters …</p> : null}
        {plan === null ? null : <Plan plan={plan} />}
      </div>
    </ConfirmDialog>
  );
}

function Plan({ plan }: { plan: ReplayBody }) {
  return (
    <>
      <p>Each record is written once to the topic and the partition that it came from:</p>
      <pre class="plan">
        <bdi>{plan.lines.map((line) => visible(line, 400)).join("\n")}</bdi>
      </pre>
    </>
  );
}
