"""Records of topics in memory, as the read side gives them to the routes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.cluster.record_side import KeyCounts, KeyRecords, KeyScan, Peek, RecordSide, UnknownAppTopicError
from penstock.common.errors import MissingTopicError


@dataclass
class FakeRecordSide(RecordSide):
    """Satisfies ``RecordSide``. ``failure`` is raised by the next call."""

    application_id: str
    peeks: dict[str, Peek] = field(default_factory=dict)
    of_keys: dict[tuple[str, str, Any], KeyRecords] = field(default_factory=dict)
    counts: dict[tuple[str, int | None], KeyCounts] = field(default_factory=dict)
    scans: list[KeyScan] = field(default_factory=list)
    failure: Exception | None = None

    async def topics(self) -> Mapping[str, str]:
        self._fail()
        return {name: peek.use for name, peek in self.peeks.items()}

    async def peek(self, topic: str, limit: int) -> Peek:
        self._fail()
        if topic not in self.peeks:
            raise UnknownAppTopicError.of(self.application_id, topic, self.peeks)
        whole = self.peeks[topic]
        return Peek(whole.topic, whole.use, whole.records[:limit], whole.looked, whole.committed_only, whole.stopped)

    async def keys(self, topic: str, partition: int | None) -> KeyCounts:
        self._fail()
        if topic not in self.peeks:
            raise UnknownAppTopicError.of(self.application_id, topic, self.peeks)
        if (topic, partition) not in self.counts:
            raise MissingTopicError(f"topic {topic!r} has no partition {partition}: it has 1")
        return self.counts[topic, partition]

    async def life(self, store: str, key: Any, scan: KeyScan) -> KeyRecords:
        return self._of_key(store, "changelog", key, scan)

    async def inputs(self, store: str, key: Any, scan: KeyScan) -> KeyRecords:
        return self._of_key(store, "inputs", key, scan)

    def _of_key(self, store: str, which: str, key: Any, scan: KeyScan) -> KeyRecords:
        self._fail()
        self.scans.append(scan)
        if scan.cursor is not None and ":" not in scan.cursor:
            raise ValueError("not a cursor of an earlier answer")
        return self.of_keys[store, which, key]

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure
