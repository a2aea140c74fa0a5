"""Records of topics in memory, as the read side gives them to the routes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.cluster.record_side import Peek, RecordSide, UnknownAppTopicError


@dataclass
class FakeRecordSide(RecordSide):
    """Satisfies ``RecordSide``. ``failure`` is raised by the next call."""

    application_id: str
    peeks: dict[str, Peek] = field(default_factory=dict)
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

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure
