import { busyHeat, heatClass } from "./heat";
import { type Figure, isKnown, percent } from "./numbers";

/** A share of 0..1 as a length and as text. `calm`: its size is no reason to worry, so its colour is always the same. */
export function ShareBar({ share, calm = false }: { share: Figure; calm?: boolean }) {
  const known = isKnown(share);
  const heat = calm ? "heat-1" : heatClass(busyHeat(share));
  return (
    <span class="share">
      <span class="share-track" aria-hidden="true">
        {known ? <span class={`share-length ${heat}`} style={{ width: `${clamped(share) * 100}%` }} /> : null}
      </span>
      <span class="share-text">{percent(share)}</span>
    </span>
  );
}

function clamped(share: number): number {
  return Math.min(1, Math.max(0, share));
}
