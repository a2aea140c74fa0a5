"""Collects the records that a driver's topology writes, per topic in order, and those that it reads again."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping

from penstock.common.records import NO_HEADERS, Headers, check_headers

ProducedRecord = tuple[bytes | None, bytes | None, int, Headers, int]
"""(key, value, timestamp, headers, partition) as it would be in its topic; partition −1 if the default partitioner
chooses. A plain tuple: a test may write millions, and nothing costs less to make."""

ArrivedRecord = tuple[str, bytes | None, bytes | None, int, Headers]
"""(topic, key, value, timestamp, headers) of a record that the topology itself is to read."""


class Collector:
    """Takes what sinks and changelogs write. ``read_back``: the topics that the topology itself reads."""

    def __init__(self, read_back: Iterable[str]) -> None:
        self.read_back = set(read_back)
        self.topics: dict[str, deque[ProducedRecord]] = defaultdict(deque)
        self.produced: set[str] = set()
        self.unseen: deque[ArrivedRecord] = deque()
        """Records of the topics in ``read_back`` that did not go in yet."""
        self.logged: Mapping[str, dict[bytes, bytes | None]] = {}
        """By changelog that is watched: the value that was written last under each key."""

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None = None,
        partition: int = -1,
    ) -> None:
        """Takes one record. Raises TypeError for headers that a producer would refuse."""
        if headers:
            check_headers(headers, topic)
        self.topics[topic].append((key, value, timestamp, headers or NO_HEADERS, partition))
        self.produced.add(topic)
        if topic in self.read_back:
            self.unseen.append((topic, key, value, timestamp, headers or NO_HEADERS))
        if topic in self.logged and key is not None:
            self.logged[topic][key] = value

    def partitions(self, topic: str) -> int:
        """Returns 1: every topic of a driver has one partition."""
        return 1
