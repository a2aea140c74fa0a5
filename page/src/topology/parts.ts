import type { Box, Line, Picture, TopologyDocument, UserFunction } from "../server/topology_document";

/** Returns the id of a part: its kind, and its name as the server quotes it. */
export function partId(kind: string, name: string): string {
  const quoted = encodeURIComponent(name.toWellFormed());
  // Python's quote() also escapes these.
  return `${kind}:${quoted.replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)}`;
}

/** Returns the name in the id of a part: of an operator, a store or a topic. */
export function nameOf(id: string): string {
  const name = id.slice(id.indexOf(":") + 1);
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** Returns the box that an address or a finding names: by id, or by the name of an operator, a store or a topic. */
export function boxOf(picture: Picture, subject: string): Box | undefined {
  const ids = new Set([subject, partId("node", subject), partId("store", subject), partId("topic", subject)]);
  // In the picture, a repartition topic has not the name that it has in Kafka.
  return picture.boxes.find((box) => ids.has(box.id)) ?? picture.boxes.find((box) => box.topic === subject);
}

/** Returns the number of the sub-topology in the id of a lane. */
export function subtopologyOf(lane: string): number {
  return Number(lane.slice(lane.indexOf(":") + 1));
}

/** The figure that a line shows: the records that enter an operator, or those that are read from or written to a topic. */
export type RateOf =
  | { section: "operators"; id: string }
  | { section: "topics"; id: string; figure: "records_in_per_s" | "records_out_per_s" };

/** Returns for each line the figure that is known to be of this line alone. Other lines have none: where two lines enter
 * one operator, nobody knows the part of each. */
export function ratesOfLines(picture: Picture): Map<string, RateOf> {
  const flows = picture.lines.filter((line) => !line.to_store);
  const boxes = new Map(picture.boxes.map((box) => [box.id, box]));
  const into = counts(flows.map((line) => line.target));
  const outOf = counts(flows.map((line) => line.source));
  const found = new Map<string, RateOf>();
  for (const line of flows) {
    const rate = rateOf(line, boxes, into, outOf);
    if (rate !== null) found.set(line.id, rate);
  }
  return found;
}

function rateOf(
  { source, target }: Line,
  boxes: ReadonlyMap<string, Box>,
  into: ReadonlyMap<string, number>,
  outOf: ReadonlyMap<string, number>,
): RateOf | null {
  const [from, to] = [boxes.get(source), boxes.get(target)];
  if (from === undefined || to === undefined) return null;
  if (isOperator(to) && into.get(target) === 1) return { section: "operators", id: nameOf(target) };
  if (from.kind === "sink" && outOf.get(source) === 1) return { section: "operators", id: nameOf(source) };
  if (from.topic !== null && outOf.get(source) === 1)
    return { section: "topics", id: from.topic, figure: "records_in_per_s" };
  if (to.topic !== null && into.get(target) === 1)
    return { section: "topics", id: to.topic, figure: "records_out_per_s" };
  return null;
}

function counts(ids: readonly string[]): Map<string, number> {
  const found = new Map<string, number>();
  for (const id of ids) found.set(id, (found.get(id) ?? 0) + 1);
  return found;
}

export function isOperator(box: Box): boolean {
  return box.kind === "source" || box.kind === "processor" || box.kind === "sink";
}

export function isTopic(box: Box): boolean {
  return box.kind === "topic" || box.kind === "repartition";
}

/** Returns the end of a path: its last position. */
export function endOf(path: string): { x: number; y: number } {
  const numbers = path.match(/-?\d+(?:\.\d+)?/g)?.map(Number) ?? [];
  return { x: numbers.at(-2) ?? 0, y: numbers.at(-1) ?? 0 };
}

/** Returns the operators that have a store, or read or write a topic. */
export function operatorsAt(document: TopologyDocument, id: string): string[] {
  const found = document.picture.lines
    .filter((line) => line.source === id || line.target === id)
    .map((line) => (line.source === id ? line.target : line.source));
  return [...new Set(found)].filter((other) => other.startsWith("node:")).map(nameOf);
}

/** Returns the functions of a box's operator; none for other boxes. */
export function functionsOf({ operators }: TopologyDocument, box: Box): readonly UserFunction[] {
  const name = nameOf(box.id);
  return isOperator(box) && Object.hasOwn(operators, name)
    ? (operators[name]?.functions ?? NO_FUNCTIONS)
    : NO_FUNCTIONS;
}

const NO_FUNCTIONS: readonly UserFunction[] = [];

/** Returns the second line of a box: its note, and as much of its first function as there is room for, in characters. */
export function noteWithFunction(note: string, functions: readonly UserFunction[], room: number): string {
  const first = functions[0];
  if (first === undefined) return note;
  const name = first.name.includes("<lambda>") ? "" : (first.name.split(".").at(-1) ?? "");
  const file = first.file?.split("/").at(-1) ?? "";
  const place = file === "" || first.line === null ? file : `${file}:${first.line}`;
  const texts = [`${note} ${name}, ${place}`, `${note} ${name}`, `${note}, ${place}`];
  const whole = [name !== "" && place !== "", name !== "", name === "" && place !== ""];
  return texts.find((text, index) => whole[index] && text.length <= room) ?? note;
}
