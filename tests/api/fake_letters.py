"""Dead letters in memory, as the read side gives them to the routes."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.cluster.letter_side import LetterSide, ReplayReport, ReplayRequest, ShownLetter, ShownLetters
from penstock.cluster.record_side import UnknownAppTopicError


@dataclass
class FakeLetterSide(LetterSide):
    """Satisfies ``LetterSide``. ``failure`` is raised by the next call; ``requests``: the replays asked for."""

    topic: str | None = None
    letters: list[ShownLetter] = field(default_factory=list)
    requests: list[ReplayRequest] = field(default_factory=list)
    failure: Exception | None = None

    async def newest(self, limit: int) -> ShownLetters:
        return ShownLetters(self._known(), tuple(self.letters[:limit]), ())

    async def letter(self, topic: str, partition: int, offset: int) -> ShownLetter | None:
        if topic != self._known():
            raise UnknownAppTopicError("another topic", [self._known()])
        at = partition, offset
        return next((each for each in self.letters if (each.record.partition, each.record.offset) == at), None)

    async def replay(self, request: ReplayRequest) -> ReplayReport:
        topic = self._known()
        self.requests.append(request)
        written = 0 if request.dry_run else 1
        return ReplayReport(topic, 2, 1, {"orders": 1}, {"were replayed before": 1}, ("1 letter of 2",), written)

    def _known(self) -> str:
        if self.failure is not None:
            raise self.failure
        if self.topic is None:
            raise UnknownAppTopicError("no dead letter topic", [])
        return self.topic
