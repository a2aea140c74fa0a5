import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { ProblemError, textOf } from "./problem";

interface Properties {
  title: string;
  /** The text of the button that confirms. */
  action: string;
  /** Begins the change. The dialog shows the error that this raises, and remains open. */
  onConfirm: () => Promise<unknown>;
  onClose: () => void;
  /** True if what is entered is not complete. */
  incomplete?: boolean;
  children: ComponentChildren;
}

/** A dialog that asks before something is changed. */
export function ConfirmDialog({ title, action, onConfirm, onClose, incomplete = false, children }: Properties) {
  const dialog = useRef<HTMLDialogElement>(null);
  const busy = useSignal(false);
  const problem = useSignal<unknown>(null);
  useEffect(() => dialog.current?.showModal(), []);
  async function submit(event: Event) {
    event.preventDefault();
    if (busy.value || incomplete) return;
    busy.value = true;
    problem.value = null;
    try {
      await onConfirm();
      dialog.current?.close();
    } catch (error) {
      problem.value = error;
    } finally {
      busy.value = false;
    }
  }
  return (
    <dialog
      ref={dialog}
      aria-labelledby="dialog-title"
      onClose={onClose}
      onKeyDown={(event) => {
        // The dialog may be a child of a panel, which Escape closes too.
        if (event.key === "Escape") event.stopPropagation();
      }}
    >
      <form onSubmit={submit}>
        <h2 id="dialog-title">{title}</h2>
        {children}
        <div aria-live="assertive">{problem.value === null ? null : <Problem error={problem.value} />}</div>
        <p class="buttons">
          <button type="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
          <button type="submit" class="confirm" disabled={busy.value || incomplete}>
            {busy.value ? "Sending …" : action}
          </button>
        </p>
      </form>
    </dialog>
  );
}

/** An error for people: of the server's problem documents, title and detail. */
export function Problem({ error }: { error: unknown }) {
  if (!(error instanceof ProblemError)) return <p class="problem">{textOf(error)}</p>;
  return (
    <p class="problem">
      <strong>{error.title}</strong>
      <br />
      <bdi>{error.detail}</bdi>
    </p>
  );
}
