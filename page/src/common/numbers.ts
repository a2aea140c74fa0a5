/** Figures as text. A figure that is not known, or no number, is an en dash: never NaN, never an empty cell. */

export const UNKNOWN = "–";

export type Figure = number | null | undefined;

const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });

export function isKnown(value: Figure): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

/** Returns a count with thousands apart: `1,234,567`. */
export function count(value: Figure): string {
  return isKnown(value) ? whole.format(value) : UNKNOWN;
}

/** Returns three digits with a unit of size: `0.4`, `12.3`, `1.23 M`. */
export function short(value: Figure): string {
  if (!isKnown(value)) return UNKNOWN;
  if (value === 0) return "0";
  const size = Math.abs(value);
  for (const [from, by, unit] of [
    [999_500_000, 1e9, " G"],
    [999_500, 1e6, " M"],
    [9_999.5, 1e3, " k"],
  ] as const) {
    if (size >= from) return `${digits(value / by)}${unit}`;
  }
  return size >= 999.5 ? whole.format(value) : digits(value);
}

function digits(value: number): string {
  const size = Math.abs(value);
  if (size >= 99.95) return value.toFixed(0);
  return size >= 9.995 ? value.toFixed(1) : size >= 0.095 ? value.toFixed(size < 0.995 ? 1 : 2) : "< 0.1";
}

export function rate(value: Figure): string {
  return isKnown(value) ? `${short(value)}/s` : UNKNOWN;
}

/** Returns a share of 0..1 as `98 %`. Only a share of nothing is `0 %`. */
export function percent(value: Figure): string {
  if (isKnown(value) && value > 0 && value < 0.01) return "< 1 %";
  return isKnown(value) ? `${Math.round(value * 100)} %` : UNKNOWN;
}

/** Returns a time as `0.3 s`, `41 s`, `2 min 13 s`, `12 min`, `3 h`, `5 days`. */
export function seconds(value: Figure): string {
  if (!isKnown(value)) return UNKNOWN;
  if (value === 0) return "0 s";
  if (value < 9.95) return `${value.toFixed(1)} s`;
  if (value < 120) return `${value.toFixed(0)} s`;
  const rounded = Math.round(value);
  if (rounded < 600) {
    const rest = rounded % 60;
    return `${Math.floor(rounded / 60)} min${rest === 0 ? "" : ` ${rest} s`}`;
  }
  if (value < 2 * 3600) return `${(value / 60).toFixed(0)} min`;
  return value < 48 * 3600 ? `${(value / 3600).toFixed(0)} h` : `${whole.format(value / 86_400)} days`;
}

export function milliseconds(value: Figure): string {
  return isKnown(value) ? `${digits(value)} ms` : UNKNOWN;
}

export function bytes(value: Figure): string {
  if (!isKnown(value)) return UNKNOWN;
  if (value < 1_000) return `${whole.format(value)} B`;
  for (const [from, unit] of [
    [1e9, "GB"],
    [1e6, "MB"],
    [1e3, "kB"],
  ] as const) {
    if (value >= from * 0.9995) return `${digits(value / from)} ${unit}`;
  }
  return `${whole.format(value)} B`;
}

/** Returns a moment as the reader's clock shows it: `14:03:09`, with the date if it is another day than `now_ms`. */
export function moment(at_ms: Figure, now_ms: number): string {
  if (!isKnown(at_ms)) return UNKNOWN;
  const at = new Date(at_ms);
  if (Number.isNaN(at.getTime())) return UNKNOWN;
  const clock = at.toLocaleTimeString("en-GB");
  return at.toDateString() === new Date(now_ms).toDateString() ? clock : `${isoDay(at)} ${clock}`;
}

/** Returns a time of a record in UTC, with its milliseconds. */
export function utc(ms: Figure): string {
  if (!isKnown(ms)) return UNKNOWN;
  const at = new Date(ms);
  return Number.isNaN(at.getTime()) ? `${ms} ms` : at.toISOString();
}

function isoDay(at: Date): string {
  const two = (part: number) => String(part).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

/** Returns a number of things: `1 task`, `2,000 tasks`. */
export function counted(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}
