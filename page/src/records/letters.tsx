import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Problem } from "../common/dialog";
import { counted, utc } from "../common/numbers";
import { ProblemError } from "../common/problem";
import { Table } from "../common/table";
import { Foreign, visible } from "../common/text";
import { useAnswer } from "../server/requests";
import type { components } from "../server/schema";
import { hashOf } from "../session/route";
import type { Session } from "../session/session";
import { LetterPart } from "./letter";
import { choicesOf, type Letter, placeOf, subjectOf } from "./places";
import { Replay } from "./replay";
import { Origin, ShownContent } from "./shown";

type LettersBody = components["schemas"]["LettersBody"];

const MOST = 100;

/** The newest dead letters, or the one at a place. They are read when the part is opened, and when the button is pressed. */
export function Letters({ session, place }: { session: Session; place: string }) {
  const { found, busy, problem, look } = useAnswer<LettersBody>(session, `dead-letters?limit=${MOST}`);
  const marked = useSignal<readonly string[]>([]);
  const done = useSignal("");
  useEffect(look, []);
  function replayed(sentence: string) {
    done.value = sentence;
    marked.value = [];
    look();
  }
  if (place !== "" && found.value !== null)
    return (
      <LetterPart key={place} session={session} topic={found.value.topic} place={place} done={done} onDone={replayed} />
    );
  return (
    <>
      <h3>Dead letters</h3>
      <div class="bar">
        <button type="button" onClick={look} disabled={busy.value}>
          {busy.value ? "Reading …" : "Read again"}
        </button>
        {found.value === null ? null : (
          <Replay session={session} choices={choicesOf(found.value.letters, marked.value)} onDone={replayed} />
        )}
        {found.value === null ? null : <Summary found={found.value} />}
      </div>
      <p class="done" role="status">
        {done.value}
      </p>
      <div aria-live="polite">{problem.value === null ? null : <Refusal error={problem.value} />}</div>
      {found.value === null ? null : (
        <LetterTable letters={found.value.letters} marked={marked} mayOperate={mayOperate(session)} />
      )}
    </>
  );
}

function mayOperate(session: Session): boolean {
  return session.application.value?.may_operate === true;
}

/** An application without a dead letter topic is as its program wants it. */
function Refusal({ error }: { error: unknown }) {
  if (!(error instanceof ProblemError) || error.status !== 404) return <Problem error={error} />;
  return (
    <p class="quiet">
      <Foreign text={error.detail} />. <span class="mono">docs/BAD_RECORDS.md</span> describes dead letters.
    </p>
  );
}

function Summary({ found }: { found: LettersBody }) {
  return (
    <span class="quiet">
      The newest {counted(found.letters.length, "letter")} of topic <Foreign text={visible(found.topic, 260)} />
      {found.stopped === null ? "" : `. Newer ones may be missing: ${visible(found.stopped, 300)}`}
    </span>
  );
}

interface TableProperties {
  letters: readonly Letter[];
  marked: Signal<readonly string[]>;
  mayOperate: boolean;
}

function LetterTable({ letters, marked, mayOperate }: TableProperties) {
  const columns = [
    ...(mayOperate ? [{ title: "Choose" }] : []),
    { title: "Letter" },
    { title: "Time of the record" },
    { title: "Error" },
    { title: "Record" },
    { title: "Key" },
    { title: "Replays" },
  ];
  return (
    <Table caption="The newest dead letters" columns={columns}>
      {letters.length === 0 ? (
        <tr>
          <td colSpan={columns.length} class="quiet">
            No dead letters.
          </td>
        </tr>
      ) : null}
      {letters.map((letter) => (
        <LetterRow key={placeOf(letter)} letter={letter} marked={marked} mayOperate={mayOperate} />
      ))}
    </Table>
  );
}

function LetterRow({ letter, marked, mayOperate }: Omit<TableProperties, "letters"> & { letter: Letter }) {
  const place = placeOf(letter);
  const { error } = letter;
  return (
    <tr>
      {mayOperate ? (
        <td>
          <input
            type="checkbox"
            aria-label={`Choose ${place}`}
            checked={marked.value.includes(place)}
            onChange={(event) => {
              const others = marked.peek().filter((each) => each !== place);
              marked.value = event.currentTarget.checked ? [...others, place] : others;
            }}
          />
        </td>
      ) : null}
      <th scope="row">
        <a href={hashOf("records", subjectOf(place))}>{place}</a>
      </th>
      <td>{utc(letter.timestamp)}</td>
      <td class="stored">
        {error === null ? (
          <span class="quiet">another program has written it</span>
        ) : (
          <>
            <Foreign class="mono" text={visible(error.exception, 200)} />
            {error.message === null ? null : (
              <>
                {": "}
                <Foreign text={visible(error.message, 300)} />
              </>
            )}
          </>
        )}
      </td>
      <td>
        <Origin letter={letter} />
      </td>
      <td class="stored">
        <ShownContent shown={letter.key} />
      </td>
      <td>{letter.replays.length === 0 ? "–" : counted(letter.replays.length, "time")}</td>
    </tr>
  );
}
