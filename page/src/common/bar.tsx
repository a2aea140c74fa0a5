import { busyHeat, heatClass } from "./heat";
import { type Figure, isKnown, percent } from "./numbers";

/** A share of 0..1 as a length and as text. */
export function ShareBar({ share }: { share: Figure }) {
  const known = isKnown(share);
  return (
    <span class="share">
      <span class="share-track" aria-hidden="true">
        {known ? (
          <span class={`share-length ${heatClass(busyHeat(share))}`} style={{ width: `${clamped(share) * 100}%` }} />
        ) : null}
      </span>
      <span class="share-text">{percent(share)}</span>
    </span>
  );
}

function clamped(share: number): number {
  return Math.min(1, Math.max(0, share));
}
