"""Creates the internal topics of an application before they are read or written (as ``InternalTopicManager``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from penstock.common.log import logger
from penstock.common.topics import NewTopic


class TopicAdmin(Protocol):
    """The part of :class:`~penstock.kafka.contracts.Admin` that creates topics."""

    def topics(self) -> dict[str, int]:
        """Returns every topic with its number of partitions."""

    def create_topics(self, topics: Iterable[NewTopic]) -> None:
        """Create; one that exists already is left as it is."""

    def topic_configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """Returns the settings of each topic; one whose settings this client may not see is left out."""


class NeedsTopics(Protocol):
    """A plan of an application's topics, such as ``topology``'s ``TopicPlan``."""

    @property
    def internal(self) -> tuple[NewTopic, ...]:
        """The topics that must exist."""


Plan = TypeVar("Plan", bound=NeedsTopics)


def ensure_topics(admin: TopicAdmin, plan: Callable[[Mapping[str, int]], Plan]) -> Plan:
    """Create the internal topics that do not exist yet and return the plan. Idempotent.

    A topic that exists is not changed, as in Kafka Streams. If its settings would lose data that the application needs,
    a warning shows how to change them. ``plan`` makes the plan from the existing topics (name to number of partitions).
    Raises what ``plan`` raises, and BrokerUnreachableError.
    """
    existing = admin.topics()
    planned = plan(existing)
    missing = [topic for topic in planned.internal if topic.name not in existing]
    if missing:
        admin.create_topics(missing)
        # Another instance may have created them first, from an older topology: then this raises.
        plan(admin.topics())
    _compare([topic for topic in planned.internal if topic.name in existing], admin)
    return planned


def _compare(topics: Iterable[NewTopic], admin: TopicAdmin) -> None:
    """Warn of wrong settings: a store may need more, such as retention, than its changelog was created with."""
    needed = {topic.name: topic.config for topic in topics}
    for name, there in sorted(admin.topic_configs(needed).items()):
        wrong = _wrong_settings(needed[name], there)
        if wrong:
            entries = ",".join(f"{key}=[{value}]" if "," in value else f"{key}={value}" for key, value in wrong.items())
            logger(__name__).warning(
                "settings of an internal topic differ from what the application needs",
                topic=name,
                needed=wrong,
                found={key: there[key] for key in wrong},
                what_to_do="kafka-configs.sh --bootstrap-server <bootstrap.servers> --alter --entity-type topics "
                f"--entity-name {name} --add-config '{entries}'",
            )


def _wrong_settings(needed: Mapping[str, str], there: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings to change: the cleanup policy, and the retention of a topic that deletes (-1: for ever)."""
    wrong = {}
    policy = needed.get("cleanup.policy", "")
    if "cleanup.policy" in there and _items(policy) != _items(there["cleanup.policy"]):
        wrong["cleanup.policy"] = policy
    if "delete" in policy and "retention.ms" in needed and "retention.ms" in there:
        least, kept = int(needed["retention.ms"]), int(there["retention.ms"])
        if kept >= 0 and (least < 0 or kept < least):
            wrong["retention.ms"] = needed["retention.ms"]
    return wrong


def _items(policy: str) -> set[str]:
    return {item.strip() for item in policy.split(",")}
