"""Answers questions about the records of topics, in the process of the HTTP server: one read at a time, in a thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from typing_extensions import override

from penstock.cluster.queries.coordinator_calls import CoordinatorCalls
from penstock.cluster.queries.key_serdes import PlacedKey
from penstock.cluster.queries.one_at_a_time import OneAtATime
from penstock.cluster.record_side import KeyCounts, KeyRecords, KeyScan, Peek, RecordSide, UnknownAppTopicError
from penstock.cluster.topic_reading.backwards import start_of
from penstock.cluster.topic_reading.key_counts import counted_keys
from penstock.cluster.topic_reading.key_records import KeyOf, key_records
from penstock.cluster.topic_reading.keys import KeyForm
from penstock.cluster.topic_reading.peek import peeked
from penstock.cluster.topic_reading.sources import (
    PickledSerdes,
    TopicSource,
    changelog_source,
    topic_source,
    topic_uses,
)
from penstock.common.errors import UnknownQueryError

T = TypeVar("T")

Locate = Callable[[str, Any], Awaitable[PlacedKey]]
"""Finds the place of a store's key."""


class RecordQueries(RecordSide):
    """:class:`~penstock.cluster.record_side.RecordSide` of one application. Belongs to one event loop."""

    def __init__(self, application_id: str, coordinator: CoordinatorCalls, locate: Locate, one: OneAtATime) -> None:
        self._application_id = application_id
        self._coordinator = coordinator
        self._locate = locate
        self._one = one

    @override
    async def topics(self) -> Mapping[str, str]:
        return await self._coordinator.ask_program(topic_uses)

    @override
    async def peek(self, topic: str, limit: int) -> Peek:
        source, serdes = await self._source(topic)
        return await self._one.run(partial(peeked, source, serdes, topic, limit))

    @override
    async def keys(self, topic: str, partition: int | None) -> KeyCounts:
        source, serdes = await self._source(topic)
        return await self._one.run(partial(counted_keys, source, serdes, topic, partition))

    async def _source(self, topic: str) -> tuple[TopicSource, PickledSerdes]:
        source = await self._coordinator.ask_program(partial(topic_source, topic=topic))
        if source.serdes is None:
            raise UnknownAppTopicError.of(self._application_id, topic, source.uses)
        await self._coordinator.require_broker()
        return source, source.serdes

    @override
    async def life(self, store: str, key: Any, scan: KeyScan) -> KeyRecords:
        place = await self._locate(store, key)
        where = place.store
        if where.changelog is None:
            raise UnknownQueryError(f"store {store!r} has no changelog: its logging is disabled")
        question = partial(changelog_source, store=store, changelog=where.changelog)
        source = await self._coordinator.ask_program(question)
        if source.keys is None:
            raise UnknownQueryError(
                f"store {store!r} is a {where.kind} store: the keys in its changelog are not those that it is asked by"
            )
        partitions = None if where.is_global else place.partitions
        return await self._records(source, where.changelog, KeyOf(source.keys, place.stored, partitions), scan)

    @override
    async def inputs(self, store: str, key: Any, scan: KeyScan) -> KeyRecords:
        place = await self._locate(store, key)
        topic = place.store.source_topic
        source = await self._coordinator.ask_program(partial(topic_source, topic=topic))
        partitions = None if place.store.is_global else place.partitions
        return await self._records(source, topic, KeyOf(KeyForm(), place.placed, partitions), scan)

    async def _records(self, source: TopicSource, topic: str, key: KeyOf, scan: KeyScan) -> KeyRecords:
        start_of(scan.cursor)  # before anything is asked
        if source.serdes is None:
            raise UnknownAppTopicError.of(self._application_id, topic, source.uses)
        await self._coordinator.require_broker()
        return await self._one.run(partial(key_records, source, source.serdes, topic, key, scan))
