"""Keeps the note of internal topics in Kafka, for a later start that does not find one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Set
from typing import Protocol

from penstock.common.errors import StreamsError
from penstock.common.ids import TopicPartition
from penstock.common.log import logger
from penstock.common.topics import NewTopic
from penstock.kafka.clients import KafkaClients
from penstock.kafka.internal_topics.known_topics import note_topics

_AGAIN_AFTER_S = 3600.0
"""Seconds between two notes: offsets of a group without members expire (``offsets.retention.minutes``: a week)."""


class ReadTopics(Protocol):
    """The topics that the tasks of an application read, such as ``topology``'s ``TaskPlan``."""

    @property
    def reads(self) -> Set[TopicPartition]:
        """Every partition that some task reads."""

    @property
    def repartition_topics(self) -> Set[str]:
        """The internal topics among them."""


def write_note(application_id: str, internal: Iterable[NewTopic], tasks: ReadTopics, clients: KafkaClients) -> None:
    """Note the ``internal`` topics, as metadata of the source topics that ``tasks`` read. Raises StreamsError."""
    sources = {tp for tp in tasks.reads if tp.topic not in tasks.repartition_topics}
    note_topics(clients.admin(), application_id, {topic.name for topic in internal}, sources)


class TopicNote:
    """Writes the note again after an hour, and as soon as the application reads other source topics.

    The start writes the first one.
    """

    def __init__(
        self,
        application_id: str,
        internal: Iterable[NewTopic],
        tasks: Callable[[], ReadTopics],
        clients: KafkaClients,
        clock_s: Callable[[], float],
    ) -> None:
        """``tasks`` returns the present tasks; at first they are those for which the start wrote the note."""
        self._application_id = application_id
        self._internal = tuple(internal)
        self._tasks = tasks
        self._noted = tasks()
        self._clients = clients
        self._clock_s = clock_s
        self._log = logger(__name__)
        self._due_s = clock_s() + _AGAIN_AFTER_S
        self._failed = False

    async def look(self) -> None:
        """Write the note if it is due. The next call repeats one that fails."""
        tasks = self._tasks()
        if tasks is self._noted and self._clock_s() < self._due_s:
            return
        try:
            await asyncio.to_thread(write_note, self._application_id, self._internal, tasks, self._clients)
        except StreamsError as error:
            if not self._failed:
                self._log.warning("note of internal topics not written to Kafka, retrying", error=str(error))
            self._failed, self._due_s = True, 0.0
        else:
            self._failed, self._noted, self._due_s = False, tasks, self._clock_s() + _AGAIN_AFTER_S
