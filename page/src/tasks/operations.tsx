import { useSignal } from "@preact/signals";
import { ConfirmDialog } from "../common/dialog";
import { count, counted } from "../common/numbers";
import { visible } from "../common/text";
import { Operation } from "../session/operation";
import type { Session } from "../session/session";

interface DialogProperties {
  session: Session;
  onClose: () => void;
}

/** Pause or resume, and the number of stream actors. */
export function Operations({ session }: { session: Session }) {
  const paused = session.application.value?.paused ?? false;
  return (
    <>
      <Operation
        session={session}
        title="Scale …"
        dialog={(close) => <ScaleDialog session={session} onClose={close} />}
      />
      <Operation
        session={session}
        title={paused ? "Resume …" : "Pause …"}
        dialog={(close) => <PauseDialog session={session} paused={paused} onClose={close} />}
      />
    </>
  );
}

function PauseDialog(properties: DialogProperties & { paused: boolean }) {
  const { session, onClose } = properties;
  // The dialog does what it was opened for, even if someone else has paused the application meanwhile.
  const paused = useSignal(properties.paused).peek();
  const path = `${session.path.value}${paused ? "resume" : "pause"}`;
  return (
    <ConfirmDialog
      title={paused ? "Resume the application?" : "Pause the application?"}
      action={paused ? "Resume" : "Pause"}
      onConfirm={() => session.client.post(path)}
      onClose={onClose}
    >
      <p>
        {paused
          ? "All tasks process records again, and call their punctuators."
          : "No task processes records or calls punctuators until someone resumes the application. Restores, commits and queries continue."}
      </p>
    </ConfirmDialog>
  );
}

function ScaleDialog({ session, onClose }: DialogProperties) {
  const now = session.document.sections.actors.ids.peek().length;
  const advised = session.application.peek()?.advised_actors ?? now;
  const wanted = useSignal(String(advised));
  const chosen = Number(wanted.value);
  const valid = /^\d+$/.test(wanted.value.trim()) && chosen > 0;
  return (
    <ConfirmDialog
      title="Set the number of stream actors?"
      action="Scale"
      incomplete={!valid}
      onConfirm={() => session.client.post(`${session.path.value}scale`, { count: chosen })}
      onClose={onClose}
    >
      <p>
        The application has {counted(now, "stream actor")} now
        {advised === now ? "" : `; the load that is measured needs ${count(advised)}`}. It keeps the new number until
        someone changes it.
      </p>
      <label class="field">
        Stream actors
        <input
          type="number"
          min={1}
          aria-describedby={valid ? undefined : "scale-reason"}
          value={wanted.value}
          onInput={(event) => {
            wanted.value = event.currentTarget.value;
          }}
        />
      </label>
      {valid ? null : (
        <p class="quiet" id="scale-reason" role="status">
          Enter a whole number, at least 1.
        </p>
      )}
    </ConfirmDialog>
  );
}

/** Restart of one stream actor. */
export function RestartActor({ session, actor }: { session: Session; actor: string }) {
  return (
    <Operation
      session={session}
      title="Restart …"
      dialog={(close) => <RestartDialog session={session} actor={actor} onClose={close} />}
    />
  );
}

function RestartDialog({ session, actor, onClose }: DialogProperties & { actor: string }) {
  const path = `${session.path.value}actors/${encodeURIComponent(actor)}/restart`;
  return (
    <ConfirmDialog
      title={`Restart ${visible(actor, 80)}?`}
      action="Restart"
      onConfirm={() => session.client.post(path)}
      onClose={onClose}
    >
      <p>
        The actor commits and ends, and another starts in its place. Standbys that have caught up take its tasks at
        once; the others wait for the new actor.
      </p>
    </ConfirmDialog>
  );
}

/** Move of one task to another stream actor. */
export function MoveTask(properties: { session: Session; task: string; from: string | null }) {
  const { session, task, from } = properties;
  const others = session.document.sections.actors.ids.value.filter((actor) => actor !== from);
  if (others.length === 0) return null;
  return (
    <Operation
      session={session}
      title="Move …"
      dialog={(close) => <MoveDialog session={session} task={task} actors={others} onClose={close} />}
    />
  );
}

function MoveDialog(properties: DialogProperties & { task: string; actors: readonly string[] }) {
  const { session, task, actors, onClose } = properties;
  const to = useSignal(actors[0] ?? "");
  const path = `${session.path.value}tasks/${encodeURIComponent(task)}/move`;
  return (
    <ConfirmDialog
      title={`Move task ${task}?`}
      action="Move"
      incomplete={!actors.includes(to.value)}
      onConfirm={() => session.client.post(path, { to: to.value })}
      onClose={onClose}
    >
      <p>
        It moves at once if it has no state to restore there, else when its stores are warmed up. It stays there until a
        stream actor comes or goes.
      </p>
      <label class="field">
        To
        <select
          value={to.value}
          onChange={(event) => {
            to.value = event.currentTarget.value;
          }}
        >
          {actors.map((actor) => (
            <option key={actor} value={actor}>
              {visible(actor)}
            </option>
          ))}
        </select>
      </label>
    </ConfirmDialog>
  );
}
