import { batch, computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { Changes, SectionName, Sections } from "./document";

/** The rows of one section. A row keeps its signal, so a change redraws the parts that show that row, and no others. */
export class Section<Row> {
  private readonly rows = new Map<string, Signal<Row>>();
  private readonly order = signal<readonly string[]>([]);

  /** The ids in natural order: `1_9` before `1_10`. Changes if a row comes or goes. */
  get ids(): ReadonlySignal<readonly string[]> {
    return this.order;
  }

  /** Returns a row; undefined if there is no such row. A component that reads it is drawn again when the row comes or goes, too. */
  value(id: string): Row | undefined {
    void this.order.value;
    return this.rows.get(id)?.value;
  }

  /** Returns all rows with their ids, in the order of `ids`. */
  entries(): [string, Row][] {
    return this.order.value.flatMap((id) => {
      const row = this.rows.get(id);
      return row === undefined ? [] : [[id, row.value] as [string, Row]];
    });
  }

  /** Takes changed rows. `whole`: they are all rows there are. */
  apply(changes: Readonly<Record<string, Row | null>>, whole: boolean): void {
    let ordered = true;
    const gone = whole ? [...this.rows.keys()].filter((id) => !Object.hasOwn(changes, id)) : [];
    for (const id of gone) ordered = !this.rows.delete(id) && ordered;
    for (const [id, row] of Object.entries(changes)) {
      const known = this.rows.get(id);
      if (row === null) ordered = !this.rows.delete(id) && ordered;
      else if (known === undefined) {
        this.rows.set(id, signal(row));
        ordered = false;
      } else if (JSON.stringify(known.peek()) !== JSON.stringify(row)) known.value = row;
    }
    if (!ordered) this.order.value = [...this.rows.keys()].sort(natural);
  }
}

/** Compares ids as people do: numbers in them by their value. */
export const natural: (one: string, other: string) => number = new Intl.Collator("en", { numeric: true }).compare;

type SectionsOfDocument = { readonly [S in SectionName]: Section<Sections[S]> };

/** The live document, as far as the server has sent it. */
export class LiveDocument {
  readonly sections: SectionsOfDocument = {
    application: new Section(),
    findings: new Section(),
    tasks: new Section(),
    actors: new Section(),
    operators: new Section(),
    topics: new Section(),
    stores: new Section(),
    rollout: new Section(),
  };

  /** Number of whole documents so far: one for each connection. */
  readonly wholes = signal(0);

  /** True once the server has sent a whole document. */
  readonly known = computed(() => this.wholes.value > 0);

  /** Takes a delta, or a whole document. Sections that the page does not know are left out. */
  apply(changes: Changes, whole: boolean): void {
    batch(() => {
      for (const name of Object.keys(this.sections) as SectionName[]) this.applySection(name, changes[name], whole);
      if (whole) this.wholes.value += 1;
    });
  }

  private applySection<S extends SectionName>(name: S, rows: Changes[S], whole: boolean): void {
    if (rows === undefined && !whole) return;
    const section: Section<Sections[S]> = this.sections[name];
    section.apply((rows ?? {}) as Record<string, Sections[S] | null>, whole);
  }
}
