"""Answers questions about the records of topics, in the process of the HTTP server: one read at a time, in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from typing_extensions import override

from penstock.cluster.queries.coordinator_calls import CoordinatorCalls
from penstock.cluster.queries.key_serdes import PlacedKey
from penstock.cluster.record_side import KeyRecords, KeyScan, Peek, ReadsBusyError, RecordSide, UnknownAppTopicError
from penstock.cluster.status import ApplicationStatus
from penstock.cluster.topic_reading.backwards import starts_of
from penstock.cluster.topic_reading.key_records import KeyOf, key_records
from penstock.cluster.topic_reading.keys import KeyForm
from penstock.cluster.topic_reading.peek import peeked
from penstock.cluster.topic_reading.sources import TopicSource, changelog_source, topic_source, topic_uses
from penstock.common.errors import BrokerUnreachableError, UnknownQueryError

T = TypeVar("T")

Locate = Callable[[str, Any], Awaitable[PlacedKey]]
"""Finds the place of a store's key."""

_WAIT_S = 5.0
"""Seconds that a read waits for the one before it."""
_LONGEST_S = 15.0
"""Seconds after which a read counts as hung: longer than the time in which a client reports that no broker answers."""


class OneRead:
    """Lets one read run at a time. One that hangs, in a client or in a serde, keeps its place until it has ended, and
    others are refused meanwhile: so no number of requests can fill the process with threads and clients."""

    def __init__(self, wait_s: float = _WAIT_S, longest_s: float = _LONGEST_S) -> None:
        self._wait_s = wait_s
        self._longest_s = longest_s
        self._running: asyncio.Future[Any] | None = None

    async def run(self, read: Callable[[], T]) -> T:
        """Returns the result of ``read``, which runs in a thread. Raises ReadsBusyError if another one does not end, or
        this one takes too long."""
        clock = asyncio.get_running_loop().time
        until_s = clock() + self._wait_s
        while self._running is not None and not self._running.done():
            left_s = until_s - clock()
            if left_s <= 0:
                raise ReadsBusyError(f"another topic is being read, and has been for {self._wait_s:g} s")
            await asyncio.wait({self._running}, timeout=left_s)
        reading = asyncio.ensure_future(asyncio.to_thread(read))
        self._running = reading
        reading.add_done_callback(lambda it: it.cancelled() or it.exception())  # nobody may be there to take it
        done, _ = await asyncio.wait({reading}, timeout=self._longest_s)
        if not done:
            raise ReadsBusyError(f"the topic could not be read within {self._longest_s:g} s")
        return reading.result()


class RecordQueries(RecordSide):
    """:class:`~penstock.cluster.record_side.RecordSide` of one application. Belongs to one event loop."""

    def __init__(self, application_id: str, coordinator: CoordinatorCalls, locate: Locate) -> None:
        self._application_id = application_id
        self._coordinator = coordinator
        self._locate = locate
        self._one = OneRead()

    @override
    async def topics(self) -> Mapping[str, str]:
        return await self._coordinator.ask_program(topic_uses)

    @override
    async def peek(self, topic: str, limit: int) -> Peek:
        source = await self._coordinator.ask_program(partial(topic_source, topic=topic))
        if source.serdes is None:
            raise UnknownAppTopicError.of(self._application_id, topic, source.uses)
        await self._require_broker()
        return await self._one.run(partial(peeked, source, source.serdes, topic, limit))

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
        starts_of(scan.cursor)  # before anything is asked
        if source.serdes is None:
            raise UnknownAppTopicError.of(self._application_id, topic, source.uses)
        await self._require_broker()
        return await self._one.run(partial(key_records, source, source.serdes, topic, key, scan))

    async def _require_broker(self) -> None:
        """Raise BrokerUnreachableError at once if the coordinator knows that no broker answers."""
        status: ApplicationStatus = await self._coordinator.ask("status")
        if status.health.no_broker:
            raise BrokerUnreachableError(status.waiting or "no broker answers")
