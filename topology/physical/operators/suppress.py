"""``suppress`` as a value, and the look-up in its result."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override

from penstock.topology.physical.operators.operator import TableOperator, ValueGetter


@dataclass(frozen=True)
class Suppress(TableOperator):
    """Hold updates back in the buffer ``store`` until they are due, of each key the last.

    An update is due if it is ``wait_ms`` older than the newest that came in: by the timestamp of the first that was
    held back for the key, or, ``until_window_closes``, by the end of the key's window. In the latter case deletions
    are dropped, as what they delete was never forwarded. With more than ``max_records`` keys, or ``max_bytes``, in the
    buffer, the first are forwarded early if ``emit_early``; else it is an error.
    """

    wait_ms: int
    until_window_closes: bool = False
    max_records: int | None = None
    max_bytes: int | None = None
    emit_early: bool = False

    keeps_key = keeps_value = keeps_source = True
    sees_value = True
    """A buffer holds objects."""

    @property
    @override
    def sees_key(self) -> bool:
        return self.until_window_closes


@dataclass(frozen=True)
class SuppressGetter(ValueGetter):
    """The value that was there before the first update that waits in ``buffer``; if none waits, that of ``source``.

    More is not known, unless the result itself is kept: a key whose updates were never forwarded has one, too.
    """

    source: ValueGetter
    buffer: str

    @property
    @override
    def stores(self) -> tuple[str, ...]:
        return (self.buffer, *self.source.stores)
