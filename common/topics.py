"""A topic to create, and the names of internal topics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_SUBSCRIPTIONS = r"KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d{10}|subscription-(registration|response)"
_INTERNAL = re.compile(rf".*-(changelog|repartition|({_SUBSCRIPTIONS})-topic)")


def has_internal_name(topic: str) -> bool:
    """Returns True if Kafka Streams gives such names to the internal topics of its applications."""
    return _INTERNAL.fullmatch(topic) is not None


@dataclass(frozen=True)
class NewTopic:
    """A topic to create; ``replication_factor`` −1 is the broker's default."""

    name: str
    partitions: int
    replication_factor: int = -1
    config: Mapping[str, str] = field(default_factory=dict)
