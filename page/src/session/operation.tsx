import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import type { Session } from "./session";

/** A button that opens a dialog. Absent without the scope `operate`. */
export function Operation(properties: {
  session: Session;
  title: string;
  dialog: (close: () => void) => ComponentChildren;
}) {
  const { session, title, dialog } = properties;
  const asks = useSignal(false);
  if (session.application.value?.may_operate !== true) return null;
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
        {title}
      </button>
      {asks.value ? dialog(close) : null}
    </>
  );
}
