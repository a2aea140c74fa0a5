"""Answers questions about dead letters, in the process of the HTTP server: one at a time, in a thread."""

from __future__ import annotations

from functools import partial

from typing_extensions import override

from penstock.cluster.dead_letters.requested_replay import replayed
from penstock.cluster.dead_letters.shown_letters import (
    LetterSource,
    ReadLetters,
    letter_source,
    origins_of,
    read_letters,
    serdes_of_topics,
    shown_letters,
)
from penstock.cluster.letter_side import LetterSide, ReplayReport, ReplayRequest, ShownLetter, ShownLetters
from penstock.cluster.queries.coordinator_calls import CoordinatorCalls
from penstock.cluster.queries.one_at_a_time import OneAtATime
from penstock.cluster.record_side import UnknownAppTopicError

_LONGEST_REPLAY_S = 60.0


class LetterQueries(LetterSide):
    """:class:`~penstock.cluster.letter_side.LetterSide` of one application. ``one`` is shared with all reads."""

    def __init__(self, application_id: str, coordinator: CoordinatorCalls, one: OneAtATime) -> None:
        self._application_id = application_id
        self._coordinator = coordinator
        self._one = one
        self._one_replay = OneAtATime("a replay of dead letters", longest_s=_LONGEST_REPLAY_S)

    @override
    async def newest(self, limit: int) -> ShownLetters:
        source, topic = await self._source()
        read = await self._one.run(partial(read_letters, source.reading, topic, limit))
        return await self._shown(topic, read)

    @override
    async def letter(self, topic: str, partition: int, offset: int) -> ShownLetter | None:
        source, known = await self._source()
        if topic != known:
            raise UnknownAppTopicError(
                f"the dead letter topic of application {self._application_id!r} is {known!r}, not {topic!r}", [known]
            )
        read = await self._one.run(partial(read_letters, source.reading, topic, 1, (partition, offset)))
        found = (await self._shown(topic, read)).letters
        return found[0] if found else None

    @override
    async def replay(self, request: ReplayRequest) -> ReplayReport:
        source, topic = await self._source()
        return await self._one_replay.run(partial(replayed, source.writing, topic, request))

    async def _shown(self, topic: str, read: ReadLetters) -> ShownLetters:
        question = partial(serdes_of_topics, topics=origins_of(read.letters))
        serdes = await self._coordinator.ask_program(question)
        return await self._one.run(partial(shown_letters, topic, read, serdes))

    async def _source(self) -> tuple[LetterSource, str]:
        source = await self._coordinator.ask_program(letter_source)
        if source.topic is None:
            raise UnknownAppTopicError(
                f"application {self._application_id!r} has no dead letter topic: "
                "errors.dead.letter.queue.topic.name is not set",
                [],
            )
        await self._coordinator.require_broker()
        return source, source.topic
