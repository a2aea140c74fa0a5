"""Creates the internal topics of an application before anyone reads or writes them (as ``InternalTopicManager``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from penstock.common.topics import NewTopic


class TopicAdmin(Protocol):
    """The part of :class:`~penstock.kafka.contracts.Admin` that is needed here."""

    def topics(self) -> dict[str, int]:
        """Every topic with its number of partitions."""

    def create_topics(self, topics: Iterable[NewTopic]) -> None:
        """Create; one that exists already is left as it is."""


class NeedsTopics(Protocol):
    """What an application's topics are planned to be, such as ``topology``'s ``TopicPlan``."""

    @property
    def internal(self) -> tuple[NewTopic, ...]:
        """The topics that must exist."""


Plan = TypeVar("Plan", bound=NeedsTopics)


def ensure_topics(admin: TopicAdmin, plan: Callable[[Mapping[str, int]], Plan]) -> Plan:
    """Create the internal topics that do not exist yet and return the plan. Idempotent.

    ``plan`` makes the plan from the topics there are (name to number of partitions). Raises what it raises, and
    BrokerUnreachableError.
    """
    existing = admin.topics()
    planned = plan(existing)
    missing = [topic for topic in planned.internal if topic.name not in existing]
    if missing:
        admin.create_topics(missing)
        # Another instance may have created them first, from an older topology: then this raises.
        plan(admin.topics())
    return planned
