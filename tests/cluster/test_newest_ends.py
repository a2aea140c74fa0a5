"""Lags up to the ends that Kafka has now, of actors that do not fetch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from penstock.actors.status import ActorStatus, TaskState, TaskStatus
from penstock.cluster.watchers.newest_ends import NewestEnds
from penstock.common.errors import BrokerUnreachableError
from penstock.common.ids import TaskId, TopicPartition

FIRST, SECOND = TopicPartition("in", 0), TopicPartition("in", 1)


class FakeAdmin:
    """Kafka with these ends; it notes which of them are asked for."""

    def __init__(self, ends: dict[TopicPartition, int]) -> None:
        self.ends = ends
        self.asked: list[TopicPartition] = []

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked = list(partitions)
        if not self.ends:
            raise BrokerUnreachableError("no broker answers")
        return {tp: self.ends[tp] for tp in self.asked}


def actor(*lags: int, position: int = 100, state: TaskState = TaskState.RUNNING) -> ActorStatus:
    """An actor with a task for each partition."""
    tasks = [
        TaskStatus(TaskId(0, number), state, lags={tp: lag}, positions={tp: position})
        for number, (tp, lag) in enumerate(zip((FIRST, SECOND), lags, strict=False))
    ]
    return status(tuple(tasks))


def status(tasks: tuple[TaskStatus, ...], **others: Any) -> ActorStatus:
    return ActorStatus("stream/1", "node", 1, 1, tasks, **others)


def lags(actors: tuple[ActorStatus, ...]) -> list[int]:
    return [task.lag for each in actors for task in each.tasks]


def test_a_lag_that_has_grown_since_the_last_fetch_is_shown() -> None:
    kafka = FakeAdmin({FIRST: 45_100, SECOND: 90})
    ends = NewestEnds(lambda: kafka)
    ends.check([actor(1_847, 5)])
    assert lags(ends.applied([actor(1_847, 5)])) == [45_000, 5], "an older end changes nothing"
    assert lags(ends.applied([actor(1_000, 5, position=10_100)])) == [35_000, 5], "later, with the same ends"


def test_a_partition_without_lag_is_not_asked_for_since_markers_are_no_lag() -> None:
    kafka = FakeAdmin({FIRST: 101, SECOND: 200})
    ends = NewestEnds(lambda: kafka)
    ends.check([actor(0, 1)])
    assert kafka.asked == [SECOND]
    assert lags(ends.applied([actor(0, 1)])) == [0, 100]


def test_one_client_asks_until_it_gets_no_answer() -> None:
    kafka, clients = FakeAdmin({FIRST: 200}), []

    def client() -> FakeAdmin:
        clients.append(kafka)
        return kafka

    ends = NewestEnds(client)
    ends.check([actor(7)])
    ends.check([actor(7)])
    assert len(clients) == 1
    kafka.ends = {}
    with pytest.raises(BrokerUnreachableError):
        ends.check([actor(7)])
    kafka.ends = {FIRST: 300}
    ends.check([actor(7)])
    assert len(clients) == 2


def test_a_task_that_restores_keeps_its_lag() -> None:
    kafka = FakeAdmin({FIRST: 200})
    ends = NewestEnds(lambda: kafka)
    restoring = actor(7, state=TaskState.RESTORING)
    ends.check([restoring])
    assert (kafka.asked, ends.applied([restoring])) == ([], (restoring,))


def test_without_a_broker_the_lags_are_those_of_the_actors() -> None:
    kafka = FakeAdmin({FIRST: 200})
    ends = NewestEnds(lambda: kafka)
    ends.check([actor(7)])
    assert lags(ends.applied([actor(7)])) == [100]
    kafka.ends = {}
    with pytest.raises(BrokerUnreachableError):
        ends.check([actor(7)])
    assert lags(ends.applied([actor(7)])) == [7]
