"""Ends of partitions that have lag, as Kafka has them now.

An actor knows the end as of its last fetch. It fetches nothing while its queues are full or it is paused, so the lag
that it reports then shrinks while the topic grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from penstock.actors.status import ActorStatus, TaskState, TaskStatus
from penstock.common.ids import TopicPartition


class Asked(Protocol):
    """The part of :class:`~penstock.kafka.contracts.Admin` that is needed here."""

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the ends as of now, for a reader of committed records."""


class NewestEnds:
    """Asks Kafka at each ``check``, one thread at a time."""

    def __init__(self, admin: Callable[[], Asked]) -> None:
        self._admin = admin
        self._client: Asked | None = None
        self._ends: Mapping[TopicPartition, int] = {}

    def check(self, actors: Iterable[ActorStatus]) -> None:
        """Ask for the ends of the partitions that have lag. Raises StreamsError, and then knows no ends."""
        behind = [tp for actor in actors for task in actor.tasks for tp in _behind(task)]
        self._ends = {}
        if behind:
            client, self._client = self._client or self._admin(), None
            self._ends = client.end_offsets(behind)
            self._client = client  # one that gets no answer may itself be stuck (``kafka/fetch_watch.py``)

    def applied(self, actors: Iterable[ActorStatus]) -> tuple[ActorStatus, ...]:
        """Returns the statuses with the lags up to the ends that are known, if these are larger."""
        ends = self._ends
        return tuple(actors) if not ends else tuple(_applied(actor, ends) for actor in actors)


def _behind(task: TaskStatus) -> list[TopicPartition]:
    # A partition without lag is fetched all the time. Markers of transactions after its last record are no lag.
    return [tp for tp, lag in task.lags.items() if lag] if task.state is TaskState.RUNNING else []


def _applied(actor: ActorStatus, ends: Mapping[TopicPartition, int]) -> ActorStatus:
    tasks = [_with_lags(task, ends) for task in actor.tasks]
    return (
        actor
        if all(new is old for new, old in zip(tasks, actor.tasks, strict=True))
        else replace(actor, tasks=tuple(tasks))
    )


def _with_lags(task: TaskStatus, ends: Mapping[TopicPartition, int]) -> TaskStatus:
    larger = {
        tp: lag
        for tp in _behind(task)
        if tp in ends and tp in task.positions and (lag := ends[tp] - task.positions[tp]) > task.lags[tp]
    }
    return replace(task, lags={**task.lags, **larger}) if larger else task
