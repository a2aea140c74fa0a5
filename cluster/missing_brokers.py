"""Brokers of Kafka that are away, and the partitions of an application that miss them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from penstock.common.ids import TopicPartition
from penstock.common.shown import counted

_MOST_NAMED = 3


@dataclass(frozen=True)
class MissingBroker:
    """A broker that has replicas of the application's topics, and is not part of Kafka's cluster now.

    ``address`` is None if it was away already when the coordinator began to look. ``since_ms``: the time (ms since
    1970) at which the coordinator has first missed it. ``leaderless``: partitions that have no leader, so that nothing
    reads or writes them. ``fewer``: partitions that another broker leads, with fewer replicas than they should have.
    """

    broker_id: int
    address: str | None
    since_ms: int
    leaderless: tuple[TopicPartition, ...]
    fewer: tuple[TopicPartition, ...]

    @property
    def named(self) -> str:
        """The broker in a sentence."""
        return f"{self.broker_id}" if self.address is None else f"{self.broker_id} ({self.address})"

    @property
    def topics(self) -> frozenset[str]:
        """The topics of which it has replicas."""
        return frozenset(each.topic for each in (*self.leaderless, *self.fewer))

    @property
    def hardest_hit(self) -> str:
        """The topic with the most partitions without a leader, or else with the most that have fewer replicas: no
        changelog, if another topic is hit."""
        topics = Counter(each.topic for each in self.leaderless or self.fewer)
        return max(topics, key=lambda topic: (not topic.endswith("-changelog"), topics[topic], topic))


@dataclass(frozen=True)
class BrokerLosses:
    """The brokers that are away. ``counts``: the number of partitions of each topic that misses one of them.
    ``leaderless``: partitions without a leader although no broker of theirs is away, at two looks in turn."""

    missing: tuple[MissingBroker, ...] = ()
    counts: tuple[tuple[str, int], ...] = ()
    leaderless: tuple[TopicPartition, ...] = ()

    @property
    def without_leader(self) -> frozenset[TopicPartition]:
        """Every partition that has no leader."""
        return frozenset(self.leaderless).union(*(each.leaderless for each in self.missing))

    def sentence(self, broker: MissingBroker, waiting: Collection[str]) -> str:
        """Returns what the loss of ``broker`` costs. ``waiting``: the names of the tasks that read partitions without a
        leader."""
        away = f"Broker {broker.named} is away"
        if not broker.leaderless:
            few = f"{counted(len(broker.fewer), 'partition')} of {self._topics(broker.fewer)}"
            have = "has fewer replicas than it" if len(broker.fewer) == 1 else "have fewer replicas than they"
            return f"{away}: {few} {have} should have; other brokers lead them"
        return f"{away}: {self.without_leader_in_words(broker.leaderless, waiting)}: start the broker again"

    def without_leader_in_words(self, partitions: Collection[TopicPartition], waiting: Collection[str]) -> str:
        """Returns the partitions without a leader, and the tasks that wait for them, as a part of a sentence."""
        have, them = ("has", "it") if len(partitions) == 1 else ("have", "them")
        parts = ", ".join(
            f"{count} of {counted(dict(self.counts).get(topic, count), 'partition')} of topic {topic}"
            for topic, count in _most_first(partitions)[:_MOST_NAMED]
        )
        others = len({each.topic for each in partitions}) - _MOST_NAMED
        parts += f" and some of {counted(others, 'other topic')}" if others > 0 else ""
        none = f"{parts} {have} no leader, so nothing reads or writes {them}"
        if not waiting:
            return none
        tasks = ", ".join(sorted(waiting)[: 2 * _MOST_NAMED]) + (" …" if len(waiting) > 2 * _MOST_NAMED else "")
        return f"{none}: {'task' if len(waiting) == 1 else 'tasks'} {tasks} {'waits' if len(waiting) == 1 else 'wait'}"

    @staticmethod
    def _topics(partitions: Iterable[TopicPartition]) -> str:
        found = [topic for topic, _ in _most_first(partitions)]
        return f"topic {found[0]}" if len(found) == 1 else counted(len(found), "topic")


def _most_first(partitions: Iterable[TopicPartition]) -> list[tuple[str, int]]:
    counts = Counter(each.topic for each in partitions)
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))


NONE_MISSING = BrokerLosses()
