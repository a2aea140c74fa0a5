"""Changes that are not committed yet, over committed rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.state.row_formats import Entry


def overlay(
    rows: Iterator[tuple[bytes, bytes]],
    changes: list[tuple[bytes, Entry]],
    reverse: bool,
    decode: Callable[[bytes], Entry],
) -> Iterator[tuple[bytes, Entry]]:
    """Yields ``rows`` with ``changes`` over them, both in the same order."""
    position = 0
    for key, row in rows:
        while position < len(changes) and (changes[position][0] > key if reverse else changes[position][0] < key):
            if changes[position][1][0] is not None:
                yield changes[position]
            position += 1
        if position < len(changes) and changes[position][0] == key:
            if changes[position][1][0] is not None:
                yield changes[position]
            position += 1
        else:
            yield key, decode(row)
    for change in changes[position:]:
        if change[1][0] is not None:
            yield change
