"""A question to a store as a value, and its answer with the position of the store."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

from penstock.cluster.queries.store_reader import StoreQuestions, StoreReader
from penstock.cluster.read_side import DEFAULT_WAIT_S, Query, RowsQuery, StoreEntry
from penstock.common.errors import UnknownQueryError
from penstock.common.position import Position, PositionBound
from penstock.common.shown import shown_with_type


@dataclass(frozen=True)
class StateQueryRequest:
    """A question to a store, whose keys are objects. Mirrors ``StateQueryRequest`` (KIP-796).

    ``wait_s``: seconds that the store has to reach ``position_bound``. ``partitions``: those of the store that are
    asked; None: all that may have a part of the answer.
    """

    store_name: str
    query: Query
    position_bound: PositionBound | None = None
    wait_s: float = DEFAULT_WAIT_S
    partitions: frozenset[int] | None = None

    @staticmethod
    def in_store(name: str) -> InStore:
        """Returns the beginning of a question to the store ``name``: ``with_query`` completes it."""
        return InStore(name)

    def with_position_bound(self, bound: PositionBound, wait_s: float = DEFAULT_WAIT_S) -> Self:
        """Returns this question with the condition that the answer must not be older than ``bound``."""
        return replace(self, position_bound=bound, wait_s=wait_s)

    def with_partitions(self, partitions: Collection[int]) -> Self:
        """Returns this question to these partitions alone. The query raises UnknownStateStoreError for one that the
        store does not have."""
        return replace(self, partitions=frozenset(partitions))

    def with_all_partitions(self) -> Self:
        """Returns this question to every partition that may have a part of the answer."""
        return replace(self, partitions=None)


@dataclass(frozen=True)
class InStore:
    """A store, and no question yet: :meth:`with_query` adds it."""

    name: str

    def with_query(self, query: Query) -> StateQueryRequest:
        """Returns the question with ``query``. Raises TypeError for an object that is no query."""
        if not isinstance(query, Query):
            raise TypeError(f"with_query needs a query, such as KeyQuery({query!r}), not {shown_with_type(query)}")
        return StateQueryRequest(self.name, query)


@dataclass(frozen=True)
class StateQueryResult:
    """``result`` is one row or None, or an iterator of rows, fetched page by page. ``position``: every record up to it
    had been seen by the partitions that were asked when the first page was read."""

    result: Any
    position: Position


def answer(reader: StoreReader, request: StateQueryRequest) -> StateQueryResult:
    """Ask the store; returns the answer."""
    query = request.query
    asked = StoreQuestions(
        reader, request.store_name, request.position_bound, request.wait_s, partitions=request.partitions
    )
    reading = asked.reading()
    if isinstance(query, RowsQuery):
        rows = asked.rows(query, reading)
        first = next(rows, None)  # reads the first page
        return StateQueryResult(iter(()) if first is None else _from(first, rows), reading.position)
    if query.is_of_one_key:
        return StateQueryResult(asked.find_row(query, reading), reading.position)
    raise UnknownQueryError(
        f"store {request.store_name!r}: {type(query).__name__} is about no single key, nor does it give rows in order: "
        "ask by KafkaStreams.store"
    )


def _from(first: StoreEntry, rest: Iterator[StoreEntry]) -> Iterator[StoreEntry]:
    yield first
    yield from rest
