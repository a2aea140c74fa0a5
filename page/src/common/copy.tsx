import { useSignal } from "@preact/signals";

/** A button that copies a text. `text` is called when it is pressed: a long text is made only then. */
export function CopyButton({ what, text }: { what: string; text: () => string }) {
  const done = useSignal("");
  async function copy() {
    done.value = (await copied(text())) ? "Copied" : "Not allowed";
    setTimeout(() => {
      done.value = "";
    }, 1_500);
  }
  return (
    <button type="button" class="copy" onClick={copy}>
      <span aria-live="polite">{done.value === "" ? "Copy" : done.value}</span>
      <span class="unseen"> {what}</span>
    </button>
  );
}

/** The clipboard's own interface exists only on pages that came by TLS, or from this machine. */
async function copied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "unseen";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
