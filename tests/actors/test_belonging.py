"""A stream actor that is no longer part of its application ends its process."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError
from structlog.testing import capture_logs

from penstock.actors.commits.commit_calls import GONE_S
from penstock.actors.process.belonging import Belonging
from penstock.common.log import logger
from tests.cluster.virtual_time import run


class Coordinator:
    """Answers each question, or fails."""

    def __init__(self, answer: bool | Exception) -> None:
        self.answer = answer

    @property
    def has_actor(self) -> Coordinator:
        return self

    def options(self, **options: Any) -> Coordinator:
        return self

    def remote(self, actor_id: str) -> Coordinator:
        assert actor_id == "stream/1"
        return self

    def future(self) -> Future[bool]:
        done: Future[bool] = Future()
        if isinstance(self.answer, Exception):
            done.set_exception(self.answer)
        else:
            done.set_result(self.answer)
        return done


def asked(*answers: tuple[float, bool | Exception]) -> list[str]:
    """Returns why the process ends when each answer comes so many seconds after the one before."""
    ended: list[bool] = []

    async def story() -> None:
        belonging = Belonging("stream/1", logger("test"), lambda: ended.append(True))
        for after_s, answer in answers:
            await asyncio.sleep(after_s)
            await belonging.ask(Coordinator(answer))

    with capture_logs() as logs:
        run(story())
    assert len(logs) == len(ended)
    assert all(entry["log_level"] == "warning" for entry in logs), "it is replaced, nothing is wrong with it"
    return [entry["why"] for entry in logs]


@pytest.mark.parametrize(
    "answer", [True, ActorDiedError(), ActorUnavailableError("being restarted", None), TimeoutError()]
)
def test_one_answer_that_does_not_come_ends_nothing(answer: bool | Exception) -> None:
    assert asked((0, answer)) == []


def test_it_ends_when_the_coordinator_answers_that_it_is_not_part_of_the_application() -> None:
    assert asked((0, True), (10, False)) == ["its coordinator has replaced it, or the application has ended"]


def test_it_ends_when_ray_calls_the_coordinator_dead_for_long() -> None:
    dead = ActorDiedError()
    assert asked((0, dead), (GONE_S - 1, dead), (1, dead)) == ["its coordinator has ended"]
    assert asked((0, dead), (GONE_S - 1, True), (1, dead)) == []
