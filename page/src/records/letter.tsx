import type { ReadonlySignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { CopyButton } from "../common/copy";
import { Problem } from "../common/dialog";
import { count, counted, utc } from "../common/numbers";
import { Fact, Facts } from "../common/panel";
import { Foreign, visible } from "../common/text";
import { written } from "../common/values";
import { useAnswer } from "../server/requests";
import { hashOf } from "../session/route";
import type { Session } from "../session/session";
import { type Letter, pathOf, subjectOf } from "./places";
import { Replay } from "./replay";
import { Origin, type Shown, ShownContent } from "./shown";

interface Properties {
  session: Session;
  topic: string;
  place: string;
  /** The outcome of the last replay. */
  done: ReadonlySignal<string>;
  onDone: (sentence: string) => void;
}

/** One dead letter: its error with the stack trace, and its record, raw and decoded. */
export function LetterPart({ session, topic, place, done, onDone }: Properties) {
  const heading = useRef<HTMLHeadingElement>(null);
  const path = pathOf(place);
  const { found, problem, look } = useAnswer<Letter>(session, `dead-letters/${encodeURIComponent(topic)}/${path}`);
  useEffect(() => {
    if (path !== null) look();
  }, [path, topic]);
  useEffect(() => heading.current?.focus(), []);
  return (
    <>
      <h3 ref={heading} tabIndex={-1}>
        Dead letter {visible(place, 40)}
      </h3>
      <div class="bar">
        <a href={hashOf("records", subjectOf())}>All dead letters</a>
        {found.value === null ? null : (
          <Replay
            session={session}
            choices={[{ title: `the letter ${place}`, wish: { places: [place] } }]}
            onDone={(sentence) => {
              onDone(sentence);
              look(); // the letter has one replay more
            }}
          />
        )}
      </div>
      <p class="done" role="status">
        {done.value}
      </p>
      {path === null ? (
        <p class="quiet">There is no such place of a letter.</p>
      ) : problem.value === null ? null : (
        <Problem error={problem.value} />
      )}
      {found.value === null ? null : <Whole letter={found.value} />}
    </>
  );
}

function Whole({ letter }: { letter: Letter }) {
  const { error } = letter;
  return (
    <div class="letter">
      <Facts>
        <Fact name="Error">
          {error === null ? "Another program has written the letter." : <Foreign class="mono" text={error.exception} />}
        </Fact>
        {error?.message ? (
          <Fact name="Message">
            <Foreign text={error.message} />
          </Fact>
        ) : null}
        <Fact name="Record">
          <Origin letter={letter} />
        </Fact>
        <Fact name="Time of the record">{utc(letter.timestamp)}</Fact>
        <Fact name="Failed again after a replay">{counted(letter.replay_count, "time")}</Fact>
        {letter.replays.map((replay, index) => (
          <Fact key={`replay ${index}`} name="Replayed">
            {replay.topic === null ? null : <Foreign text={visible(replay.topic, 260)} />} {utc(replay.at_ms)} or before
          </Fact>
        ))}
      </Facts>
      <Both title="Key" decoded={letter.key} raw={letter.raw_key} />
      <Both title="Value" decoded={letter.value} raw={letter.raw_value} />
      <h4>Headers of the record</h4>
      {letter.headers.length === 0 ? <p class="quiet">None.</p> : null}
      <Facts>
        {letter.headers.map((header, index) => (
          <Fact key={`${index} ${header.name}`} name={visible(header.name, 200)}>
            <ShownContent shown={header.value} />
          </Fact>
        ))}
      </Facts>
      {letter.header_count > letter.headers.length ? (
        <p class="quiet">{count(letter.header_count - letter.headers.length)} more</p>
      ) : null}
      {error?.stacktrace ? <Stack text={error.stacktrace} /> : null}
      <p>
        <CopyButton what="the letter" text={() => written(letter, "json") ?? ""} />
      </p>
    </div>
  );
}

/** A key or a value: by the serde that the application has for its topic now, and as it is in the letter. */
function Both({ title, decoded, raw }: { title: string; decoded: Shown | null; raw: Shown | null }) {
  return (
    <div class="letter-both">
      <Content title={`${title}, decoded`}>
        <ShownContent shown={decoded} />
      </Content>
      <Content title={`${title}, raw`}>
        <ShownContent shown={raw} />
      </Content>
    </div>
  );
}

function Content({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <div class="stored">
      <h4>{title}</h4>
      {children}
    </div>
  );
}

function Stack({ text }: { text: string }) {
  const lines = text.split("\n");
  return (
    <>
      <h4>Stack trace</h4>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <section class="difference stack" tabIndex={0} aria-label="Stack trace">
        <pre>
          <bdi>{lines.map((line) => visible(line)).join("\n")}</bdi>
        </pre>
      </section>
    </>
  );
}
