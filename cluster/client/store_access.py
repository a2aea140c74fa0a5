"""Queries of an application's stores by a program: in the process that started it, or in any other."""

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
    """The kind of a store, and the names of the :class:`QueryableStoreTypes` by which it can be queried."""

    kind: str
    views: Collection[str]


class StoreAccess(ABC):
    """The part of ``KafkaStreams`` and ``RunningApplication`` that queries stores."""

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

        ``type``: one of :class:`QueryableStoreTypes`; without one it is ``key_value_store()``. ``position_bound``:
        answers must not be older than that (KIP-796). A store that has not reached the bound has ``wait_s`` seconds to
        do so; then calls raise NotUpToBoundError, or PositionError if it can never reach it. ``stale_stores``: while a
        task moves, restores or does not answer, a standby may answer, or the task itself from the rows that it has so
        far; such an answer may lack the newest updates (KIP-535). It cannot be used with a bound. ``partition``: the
        only partition that answers, as by ``StoreQueryParameters.withPartition`` (KIP-562); then keys of other
        partitions are absent.

        Raises UnknownStateStoreError, which names the existing stores, UnknownQueryError for a store of another kind,
        and ApplicationStateError, with the cause, if the application is not started, or has ended. A query of a
        partition that the store does not have raises UnknownStateStoreError, too.
        """
        kind, views = self._shape_of(name)
        wanted = type or QueryableStoreTypes.key_value_store()
        partitions = None if partition is None else frozenset({partition})
        questions = StoreQuestions(self._store_reader(), name, position_bound, wait_s, stale_stores, partitions)
        return wanted.of(kind, views, questions)

    def query(self, request: StateQueryRequest) -> StateQueryResult:
        """Returns the answer to a question, with the position of the store. Mirrors interactive queries v2 (KIP-796).
        Raises the errors of :meth:`store` and of its views, and TypeError for a request without a query.
        """
        if not isinstance(request, StateQueryRequest):
            raise TypeError(
                "query takes a request that has a query: StateQueryRequest.in_store(name).with_query(query), not "
                f"{shown_with_type(request)}"
            )
        self._shape_of(request.store_name)
        return answer(self._store_reader(), request)

    def query_metadata_for_key(self, store: str, key: Any) -> KeyQueryMetadata:
        """Returns the partition of ``key`` in a store, and the stream actors that have it. Mirrors
        ``queryMetadataForKey`` (KIP-535). No query needs it: any process may ask for any key.

        Raises UnknownStateStoreError, SerializationError for a key that the store's serde refuses, and
        ApplicationStateError if the application does not run.
        """
        self._shape_of(store)
        reader = self._store_reader()
        return reader.run(store, lambda: reader.queries.key_metadata(store, key))

    def streams_metadata_for_store(self, store: str) -> tuple[StreamsMetadata, ...]:
        """Returns every stream actor that has a part of a store, or a standby of one, with all its tasks and standbys.
        Mirrors ``streamsMetadataForStore``. Raises UnknownStateStoreError, and ApplicationStateError if the application
        does not run."""
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
