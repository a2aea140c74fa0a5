"""Repartition topics hold records only until they are processed: this drops what is committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Set

from penstock.common.errors import StreamsError
from penstock.common.ids import Offsets, TopicPartition
from penstock.common.log import logger
from penstock.kafka.contracts import Admin


class Purger:
    """Remembers what was committed of repartition topics, and deletes it from Kafka when asked to."""

    def __init__(self, repartition_topics: Set[str], admin: Callable[[], Admin]) -> None:
        self._topics = repartition_topics
        self._admin = admin
        self._client: Admin | None = None
        self._answered = False
        self._due: dict[TopicPartition, int] = {}
        self._log = logger(__name__)

    def committed(self, offsets: Offsets) -> None:
        """Note that Kafka has these offsets: records before them, in repartition topics, are purged next time."""
        for partition, committed in offsets.items():
            if partition.topic in self._topics:
                self._due[partition] = committed.offset

    async def purge(self) -> None:
        """Delete what was committed since the last time; what fails is tried again the next time."""
        due, self._due = self._due, {}
        if not due:
            return
        try:
            await asyncio.to_thread(self._delete, due)
        except StreamsError as error:
            self._log.warning("repartition topics not purged", error=str(error))
            self._due = {**due, **self._due}

    def _delete(self, before: Mapping[TopicPartition, int]) -> None:
        if self._client is None or not self._answered:
            # The one that was not answered may be what is stuck (``kafka/fetch_watch.py``).
            self._client = self._admin()
        self._answered = False
        self._client.delete_records(before)
        self._answered = True
