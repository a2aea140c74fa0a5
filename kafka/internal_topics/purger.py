"""Deletes the records of repartition topics that are processed and committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Set

from penstock.common.errors import StreamsError
from penstock.common.ids import Offsets, TopicPartition
from penstock.common.log import logger
from penstock.kafka.contracts import Admin


class Purger:
    """Remembers the committed offsets of repartition topics, and deletes the records before them when asked to."""

    def __init__(self, repartition_topics: Set[str], admin: Callable[[], Admin]) -> None:
        self._topics = repartition_topics
        self._admin = admin
        self._client: Admin | None = None
        self._answered = False
        self._due: dict[TopicPartition, int] = {}
        self._log = logger(__name__)

    def committed(self, offsets: Offsets) -> None:
        """Note committed offsets: the next purge deletes the records before them, in repartition topics."""
        for partition, committed in offsets.items():
            if partition.topic in self._topics:
                self._due[partition] = committed.offset

    async def purge(self) -> None:
        """Delete the records that were committed since the last purge. A deletion that fails is repeated by the
        next."""
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
            # A client that got no answer may itself be stuck (``kafka/fetch_watch.py``).
            self._client = self._admin()
        self._answered = False
        self._client.delete_records(before)
        self._answered = True
