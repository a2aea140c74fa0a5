import type { ComponentChildren } from "preact";

export interface Column {
  title: string;
  /** Numbers are at the right. */
  right?: boolean;
}

/** A table. If it is wider than the window, it scrolls by itself, also by keyboard. `children` are its rows. */
export function Table(properties: { caption: string; columns: readonly Column[]; children: ComponentChildren }) {
  const { caption, columns, children } = properties;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <section class="table" tabIndex={0} aria-label={caption}>
      <table>
        <caption class="unseen">{caption}</caption>
        <thead>
          <tr>
            {columns.map(({ title, right }) => (
              <th key={title} scope="col" class={right ? "right" : undefined}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </section>
  );
}
