import { milliseconds } from "../common/numbers";
import { Foreign, visible } from "../common/text";
import type { Actor } from "../server/document";

/** The state of an actor in a word, and the error if it has failed. */
export function ActorStateCell({ actor }: { actor: Actor }) {
  return (
    <td class="reason">
      <span class="actor-state" data-state={actor.state}>
        {visible(actor.state)}
      </span>
      {actor.error === null ? null : (
        <>
          {": "}
          <Foreign class="quiet" text={visible(actor.error, 200)} />
        </>
      )}
    </td>
  );
}

export const COMMIT_PAUSES = [
  { title: "Commit pause, median", right: true },
  { title: "longest", right: true },
] as const;

/** The cells of `COMMIT_PAUSES`. */
export function CommitPauseCells({ actor }: { actor: Actor }) {
  return (
    <>
      <td class="right">{milliseconds(actor.commit_pause_p50_ms)}</td>
      <td class="right">{milliseconds(actor.commit_pause_max_ms)}</td>
    </>
  );
}
