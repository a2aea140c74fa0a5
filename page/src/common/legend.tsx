import type { Heat } from "./heat";
import { heatClass } from "./heat";

/** Explains the steps of heat: five of them, and the one of figures that are not known. */
export function Legend({ title, steps }: { title: string; steps: readonly string[] }) {
  return (
    <p class="legend">
      <span class="quiet">{title}</span>
      {steps.map((text, index) => (
        <span key={text} class="legend-step">
          <span class={`swatch ${heatClass(index as Heat)}`} />
          {text}
        </span>
      ))}
      <span class="legend-step">
        <span class="swatch heat-unknown" />
        not known
      </span>
    </p>
  );
}
