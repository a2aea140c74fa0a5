"""The stores of an application as a program asks them: for the process that started it, and for any other."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any, NamedTuple, TypeVar, overload

from penstock.cluster.queries.queryable import QueryableStoreType, QueryableStoreTypes
from penstock.cluster.queries.state_query import StateQueryRequest, StateQueryResult, answer
from penstock.cluster.queries.store_metadata import KeyQueryMetadata, StreamsMetadata
from penstock.cluster.queries.store_reader import StoreQuestions, StoreReader
from penstock.cluster.queries.store_view import ReadOnlyKeyValueStore
from penstock.cluster.read_side import DEFAULT_WAIT_S
from penstock.common.position import PositionBound
from penstock.common.shown import shown_with_type

T = TypeVar("T")


class StoreShape(NamedTuple):
    """The kind of a store, and the names of the :class:`QueryableStoreTypes` that it can be asked as."""

    kind: str
    views: Collection[str]


class StoreAccess(ABC):
    """The part of an application that asks its stores: ``KafkaStreams`` and ``RunningApplication`` have it."""

    _reader: StoreReader | None
    _viewing: threading.Lock

    @property
    @abstractmethod
    def application_id(self) -> str:
        """``application.id``."""

    @abstractmethod
    def _shape_of(self, store: str) -> StoreShape:
        """The shape of a store. Raises UnknownStateStoreError, and ApplicationStateError if the application does not
        run."""

    @overload
    def store(
        self,
        name: str,
        *,
        position_bound: PositionBound | None = None,
        wait_s: float = DEFAULT_WAIT_S,
        stale_stores: bool = False,
        partition: int | None = None,
    ) -> ReadOnlyKeyValueStore[Any, Any]: ...
    @overload
    def store(
        self,
        name: str,
        type: QueryableStoreType[T],
        *,
        position_bound: PositionBound | None = None,
        wait_s: float = DEFAULT_WAIT_S,
        stale_stores: bool = False,
        partition: int | None = None,
    ) -> T: ...
    def store(
        self,
        name: str,
        type: QueryableStoreType[Any] | None = None,
        *,
        position_bound: PositionBound | None = None,
        wait_s: float = DEFAULT_WAIT_S,
        stale_stores: bool = False,
        partition: int | None = None,
    ) -> Any:
        """A read-only view of a state store, over all tasks; ``close`` ends it. Mirrors interactive queries.

        ``type``: one of :class:`QueryableStoreTypes`; without one it is ``key_value_store()``. ``position_bound``: what
        the view gives must not be older than that (KIP-796). A store that has not come there gets ``wait_s``, then its
        calls raise NotUpToBoundError, or PositionError if it can never come there. ``stale_stores``: while a task
        moves, restores or does not answer, a standby may answer, or the task with what it has so far, which may lack
        the newest (KIP-535); not with a bound. ``partition``: the only one that answers, as by
        ``StoreQueryParameters.withPartition`` (KIP-562); keys of others are absent then.

        Raises UnknownStateStoreError naming the stores there are, also for a partition that the store does not have
        (when it is asked), UnknownQueryError for a store that is of another
        kind, and ApplicationStateError, with the cause, when the application is not started, or has ended.
        """
        kind, views = self._shape_of(name)
        wanted = type or QueryableStoreTypes.key_value_store()
        partitions = None if partition is None else frozenset({partition})
        questions = StoreQuestions(self._store_reader(), name, position_bound, wait_s, stale_stores, partitions)
        return wanted.of(kind, views, questions)

    def query(self, request: StateQueryRequest) -> StateQueryResult:
        """The answer to a question, with the position that it is as new as. Mirrors interactive queries v2 (KIP-796).

        Raises what :meth:`store` and its calls do, and TypeError for what is no whole request.
        """
        if not isinstance(request, StateQueryRequest):
            raise TypeError(
                "query takes a request that has a query: StateQueryRequest.in_store(name).with_query(query), not "
                f"{shown_with_type(request)}"
            )
        self._shape_of(request.store_name)
        return answer(self._store_reader(), request)

    def query_metadata_for_key(self, store: str, key: Any) -> KeyQueryMetadata:
        """The partition of ``key`` in a store, and the stream actors that have it. Mirrors ``queryMetadataForKey``
        (KIP-535). No query needs it: any process may ask for any key.

        Raises UnknownStateStoreError, SerializationError for a key that the store's serde refuses, and
        ApplicationStateError if the application does not run.
        """
        self._shape_of(store)
        reader = self._store_reader()
        return reader.run(store, lambda: reader.queries.key_metadata(store, key))

    def streams_metadata_for_store(self, store: str) -> tuple[StreamsMetadata, ...]:
        """Every stream actor that has a part of a store, or a standby of one, with all that it has. Mirrors
        ``streamsMetadataForStore``. Raises UnknownStateStoreError, and ApplicationStateError if the application does
        not run."""
        self._shape_of(store)
        reader = self._store_reader()
        return reader.run(store, lambda: reader.queries.actors_with(store))

    def _store_reader(self) -> StoreReader:
        with self._viewing:
            if self._reader is None:
                self._reader = StoreReader(self.application_id)
            return self._reader

    def _end_views(self) -> None:
        with self._viewing:
            reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
