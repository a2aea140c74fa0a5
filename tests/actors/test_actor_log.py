"""Warnings and errors of a stream actor travel with its statuses."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.actors.loop.lease import QuestionId
from penstock.actors.process import stream_actor
from penstock.actors.process.stream_actor import StreamActor
from penstock.actors.status import ActorStatus
from penstock.common.kept_lines import KeptLines


def test_each_status_has_the_lines_that_may_not_have_arrived_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = KeptLines()
    monkeypatch.setattr(stream_actor, "KEPT", kept)
    actor: Any = StreamActor("app", "stream/1", b"")
    answer: Future[ActorStatus] = Future()
    answer.set_result(ActorStatus("stream/1", "node", 1, 1, ()))
    actor._loop = SimpleNamespace(status=lambda: answer)
    kept.keep(None, "warning", {"event": "first"})

    async def statuses(numbers: range) -> list[ActorStatus]:
        return [await actor.status(QuestionId(1, number, 0)) for number in numbers]

    first = asyncio.run(statuses(range(1, 3)))
    kept.keep(None, "error", {"event": "second"})
    second = asyncio.run(statuses(range(3, 7)))
    assert [[line.event for line in status.log] for status in (*first, *second)] == [
        ["first"], ["first"], ["first", "second"], ["second"], ["second"], [],
    ]  # fmt: skip
    assert first[0].without_log == second[-1]
