import type { Heat } from "./heat";
import { heatClass } from "./heat";

/** Explains the steps of heat: five of them, and the one of figures that are not known. `signs`: what letters mean. */
export function Legend({ title, steps, signs }: { title: string; steps: readonly string[]; signs?: string }) {
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
      {signs === undefined ? null : <span class="legend-step">{signs}</span>}
    </p>
  );
}
