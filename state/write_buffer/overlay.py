"""Changes that are not committed yet, over committed rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.state.rows.row_formats import Entry


def overlay(
    rows: Iterator[tuple[bytes, bytes]],
    changes: list[tuple[bytes, Entry]],
    reverse: bool,
    decode: Callable[[bytes], Entry],
) -> Iterator[tuple[bytes, Entry]]:
    """Yields ``rows`` with ``changes`` over them, both in the same order."""
    index = 0
    for key, row in rows:
        while index < len(changes) and (changes[index][0] > key if reverse else changes[index][0] < key):
            if changes[index][1][0] is not None:
                yield changes[index]
            index += 1
        if index < len(changes) and changes[index][0] == key:
            if changes[index][1][0] is not None:
                yield changes[index]
            index += 1
        else:
            yield key, decode(row)
    for change in changes[index:]:
        if change[1][0] is not None:
            yield change
