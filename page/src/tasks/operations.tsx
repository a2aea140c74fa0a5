import { useSignal } from "@preact/signals";
import { ConfirmDialog } from "../common/dialog";
import type { Session } from "../shell/session";

/** Pause and resume. Absent without the scope `operate`. */
export function Operations({ session }: { session: Session }) {
  const asks = useSignal(false);
  const application = session.application.value;
  if (application === undefined || !application.may_operate) return null;
  const paused = application.paused ?? false;
  const close = () => {
    asks.value = false;
  };
  return (
    <>
      <button
        type="button"
        onClick={() => {
          asks.value = true;
        }}
      >
        {paused ? "Resume …" : "Pause …"}
      </button>
      {asks.value ? <PauseDialog session={session} paused={paused} onClose={close} /> : null}
    </>
  );
}

function PauseDialog(properties: { session: Session; paused: boolean; onClose: () => void }) {
  const { session, onClose } = properties;
  // The dialog orders what it was opened for, even if someone else has paused the application meanwhile.
  const paused = useSignal(properties.paused).peek();
  const path = `${session.path.value}${paused ? "resume" : "pause"}`;
  return (
    <ConfirmDialog
      title={paused ? "Resume the application?" : "Pause the application?"}
      order={paused ? "Resume" : "Pause"}
      onOrder={() => session.client.post(path)}
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
