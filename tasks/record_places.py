"""The partition and offset of the current record: known without a write for each record, and kept where headers go.

Nothing else in ``tasks/`` may work these out. Two rules hold, which ``tests/tasks/test_record_places.py`` checks:

- A loop over records takes the values from the iterator that it gave to ``TaskContext.enter``: a list's, which
  nothing else advances. Otherwise an error names another record, and a processor gets the offset of another one.
- Code that puts other headers in place of the current ones keeps their source (:meth:`PlacedHeaders.replaced_by`).
  Otherwise a flush gives a processor the source of the record that came last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import length_hint
from typing import Any

from penstock.common.ids import TopicPartition
from penstock.common.records import Header, Headers

_NO_VALUES: Iterator[Any] = iter(())


class PlacedHeaders(list[Header]):
    """Headers with the source of their record. They go wherever headers go, into a cached store, too: if that is
    flushed when other records have been processed since, an operator that asks for the source still gets it. ``raw``:
    key and value of the record as it was read, if a handler of exceptions may ask for them."""

    __slots__ = ("offset", "raw", "source")

    def __init__(
        self,
        source: TopicPartition | None,
        offset: int,
        headers: Headers | None,
        raw: tuple[bytes | None, bytes | None] | None = None,
    ) -> None:
        if headers:
            super().__init__(headers)
        self.source = source
        self.offset = offset
        self.raw = raw

    def replaced_by(self, headers: Headers | None) -> PlacedHeaders:
        """Returns ``headers``, which a processor has put in place of these, with the source of these."""
        return (
            headers
            if isinstance(headers, PlacedHeaders)
            else PlacedHeaders(self.source, self.offset, headers, self.raw)
        )


class RunCursor:
    """The position in the current run of records, kept without a write for each record.

    ``values`` is the list iterator that the run advances with each record. Such an iterator knows exactly how many
    values are left (``length_hint``); ``end`` is the index in the batch, whose ``offsets`` these are, after the run.
    """

    __slots__ = ("end", "offsets", "values")

    def __init__(self, offsets: Sequence[int] = (), end: int = 0, values: Iterator[Any] = _NO_VALUES) -> None:
        self.offsets = offsets
        self.end = end
        self.values = values

    @property
    def left(self) -> int:
        """Number of values of the run that have not been taken."""
        return length_hint(self.values)

    @property
    def offset(self) -> int:
        """Offset of the current record: the one whose value was taken last."""
        return self.offsets[self.end - length_hint(self.values) - 1]
