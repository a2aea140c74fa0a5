"""A topic, as someone wants it to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class NewTopic:
    """A topic to create; ``replication_factor`` −1 is the broker's default."""

    name: str
    partitions: int
    replication_factor: int = -1
    config: Mapping[str, str] = field(default_factory=dict)
