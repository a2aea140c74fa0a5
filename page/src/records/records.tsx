import { Problem } from "../common/dialog";
import { Table } from "../common/table";
import { Foreign, visible } from "../common/text";
import { useProgramDocument } from "../server/requests";
import type { components } from "../server/schema";
import { hashOf } from "../session/route";
import type { ViewProperties } from "../session/views";
import { Keys } from "./keys";
import { Letters } from "./letters";
import { Peek } from "./peek";
import { placeIn, subjectOf } from "./places";
import { topicPartOf } from "./subject";

type TopicsBody = components["schemas"]["TopicsBody"];

const COLUMNS = [{ title: "Topic" }, { title: "Use in the application" }] as const;

/** The topics of the application with the newest records of one of them, or the dead letters. */
export function Records({ session, subject }: ViewProperties) {
  const place = placeIn(subject);
  return (
    <>
      <p class="parts">
        <a href={hashOf("records")} aria-current={place === null ? "true" : undefined}>
          Topics
        </a>
        <a href={hashOf("records", subjectOf())} aria-current={place === null ? undefined : "true"}>
          Dead letters
        </a>
      </p>
      {place === null ? <Topics session={session} subject={subject} /> : <Letters session={session} place={place} />}
    </>
  );
}

function Topics({ session, subject }: ViewProperties) {
  const { found, problem } = useProgramDocument<TopicsBody>(session, "topics");
  const topics = found.value?.topics;
  const part = subject === null ? null : topicPartOf(subject);
  const chosen = part === null ? undefined : topics?.find(({ name }) => name === part.topic);
  return (
    <>
      {problem.value === null ? null : <Problem error={problem.value} />}
      {topics === undefined ? null : (
        <Table caption="All topics" columns={COLUMNS}>
          {topics.map(({ name, use }) => (
            <tr key={name} aria-current={name === part?.topic ? "true" : undefined}>
              <th scope="row">
                <a href={hashOf("records", name)}>
                  <Foreign text={name} />
                </a>
              </th>
              <td>{visible(use)}</td>
            </tr>
          ))}
        </Table>
      )}
      {subject !== null && topics !== undefined && chosen === undefined ? (
        <p class="quiet" role="status">
          The application neither reads nor writes a topic <Foreign text={visible(subject, 80)} />.
        </p>
      ) : null}
      {chosen === undefined ? null : (
        <>
          <h3>
            <Foreign text={chosen.name} />
          </h3>
          <h4>Keys</h4>
          <Keys key={subject} session={session} topic={chosen.name} partition={part?.partition ?? null} />
          <Peek key={chosen.name} session={session} topic={chosen.name} />
        </>
      )}
    </>
  );
}
