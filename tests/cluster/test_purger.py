"""Committed records of repartition topics are deleted, however often the broker is away meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from structlog.testing import capture_logs

from penstock.common.errors import BrokerUnreachableError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.kafka.internal_topics.purger import Purger

MADE, OTHER, INPUT = TopicPartition("made", 0), TopicPartition("made", 1), TopicPartition("input", 0)


class Kafka:
    """Keeps the deletions of each client. A client that was without an answer once never gets one again."""

    def __init__(self) -> None:
        self.away = False
        self.deleted: list[tuple[int, dict[TopicPartition, int]]] = []
        self.clients = 0

    def client(self) -> Any:
        self.clients += 1
        return _Client(self, self.clients)


class _Client:
    def __init__(self, kafka: Kafka, number: int) -> None:
        self._kafka = kafka
        self._number = number
        self._stuck = False

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        self._stuck |= self._kafka.away
        if self._stuck:
            raise BrokerUnreachableError("no broker answers")
        self._kafka.deleted.append((self._number, dict(before)))


def test_records_that_could_not_be_deleted_are_deleted_the_next_time_by_another_client() -> None:
    kafka = Kafka()
    purger = Purger({"made"}, kafka.client)
    purger.committed({MADE: CommittedOffset(5), INPUT: CommittedOffset(9)})
    asyncio.run(purger.purge())
    asyncio.run(purger.purge())
    kafka.away = True
    purger.committed({MADE: CommittedOffset(7), OTHER: CommittedOffset(2)})
    with capture_logs() as message:
        asyncio.run(purger.purge())
    assert [line["event"] for line in message] == ["repartition topics not purged"]
    kafka.away = False
    purger.committed({MADE: CommittedOffset(8)})
    asyncio.run(purger.purge())
    purger.committed({MADE: CommittedOffset(9)})
    asyncio.run(purger.purge())
    assert kafka.deleted == [(1, {MADE: 5}), (2, {MADE: 8, OTHER: 2}), (2, {MADE: 9})]
