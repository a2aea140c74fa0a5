import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Foreign } from "./text";

/** A panel beside a picture or a table: one part of it, closely. Escape closes it. */
export function Panel(properties: { title: string; kind: string; onClose: () => void; children: ComponentChildren }) {
  const { title, kind, onClose, children } = properties;
  const panel = useRef<HTMLElement>(null);
  const heading = useRef<HTMLHeadingElement>(null);
  // When the panel closes, the focus returns to where it was before, unless it has left the panel for another part.
  useEffect(() => {
    const before = document.activeElement;
    return () => {
      const now = document.activeElement;
      const here = now === document.body || (panel.current?.contains(now) ?? false);
      if (here && (before instanceof HTMLElement || before instanceof SVGElement)) before.focus();
    };
  }, []);
  // If another part is shown, its heading is where to read on.
  useEffect(() => heading.current?.focus(), [title, kind]);
  return (
    <aside
      ref={panel}
      class="panel"
      aria-labelledby="panel-title"
      onKeyDown={(event) => {
        if (event.key === "Escape") onClose();
      }}
    >
      <div class="panel-head">
        <h3 id="panel-title" ref={heading} tabIndex={-1}>
          <Foreign text={title} />
        </h3>
        <button type="button" class="plain" onClick={onClose}>
          Close
        </button>
      </div>
      <p class="quiet">{kind}</p>
      {children}
    </aside>
  );
}

/** Names with their figures. */
export function Facts({ children }: { children: ComponentChildren }) {
  return <dl class="facts">{children}</dl>;
}

/** One figure of `Facts`. */
export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
