"""Unresponsive processes of the coordinator and the HTTP server, which Ray restarts only when they have ended."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, NodeDiedError
from structlog.testing import capture_logs

from penstock.actors.process.process_lost import PROCESS_LOST_S
from penstock.actors.process.process_watch import LOOK_EVERY_S, Process, ProcessWatch, end_if_silent
from penstock.common.log import logger
from tests.cluster.virtual_time import run
from tests.waiting import eventually

HERE = Process("node", 7, 1000.0)


class Actor:
    """Stands in for a Ray actor: ``lives`` is its process, or None if it is unresponsive."""

    def __init__(self) -> None:
        self.lives: Process | None = HERE
        self.asked: list[Future[Process]] = []
        self.process = SimpleNamespace(options=self.options)

    def options(self, max_task_retries: int) -> Any:
        assert max_task_retries == 0
        return SimpleNamespace(remote=lambda: SimpleNamespace(future=self.ask))

    def ask(self) -> Future[Process]:
        answer: Future[Process] = Future()
        if self.lives is not None:
            answer.set_result(self.lives)
        return answer


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def to_thread(call: Callable[..., Any], *arguments: Any) -> Any:
        return call(*arguments)

    monkeypatch.setattr(asyncio, "to_thread", to_thread)


class Watched:
    """An actor that is watched, and the processes that are ended."""

    def __init__(self) -> None:
        self.actor = Actor()
        self.ended: list[Process] = []
        self.answer: bool | Exception = True
        self.watch = ProcessWatch("coordinator", logger(__name__), self.end)

    def end(self, _: Actor, process: Process) -> bool:
        self.ended.append(process)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def watch_for(self, seconds: float) -> None:
        clock_s = asyncio.get_running_loop().time
        until_s = clock_s() + seconds
        while clock_s() < until_s:
            await self.watch.look(self.actor)
            await asyncio.sleep(LOOK_EVERY_S)


@pytest.mark.usefixtures("at_once")
def test_an_unresponsive_actor_is_ended_once_and_watched_again_when_it_has_another_process() -> None:
    async def play() -> None:
        it = Watched()
        await it.watch_for(60)
        it.actor.lives = None
        await it.watch_for(PROCESS_LOST_S - LOOK_EVERY_S)
        assert it.ended == [], "a short silence is forgiven"
        with capture_logs() as logged:
            await it.watch_for(300)
        assert it.ended == [HERE]
        (line,) = logged
        assert line["event"] == "unresponsive process ended; Ray restarts it"
        assert (line["what"], line["pid"]) == ("coordinator", 7)
        it.actor.lives = Process("node", 8, 1100.0)
        await it.watch_for(60)
        it.actor.lives = None
        await it.watch_for(100)
        assert it.ended == [HERE, Process("node", 8, 1100.0)]

    run(play())


@pytest.mark.usefixtures("at_once")
def test_an_actor_that_has_never_answered_is_left_alone() -> None:
    async def play() -> None:
        it = Watched()
        it.actor.lives = None
        await it.watch_for(300)
        assert it.ended == []

    run(play())


@pytest.mark.usefixtures("at_once")
def test_a_node_that_cannot_be_reached_is_asked_again() -> None:
    async def play() -> None:
        it = Watched()
        await it.watch.look(it.actor)
        it.actor.lives = None
        it.answer = NodeDiedError("the node is gone")  # type: ignore[no-untyped-call]  # untyped in Ray
        with capture_logs() as logged:
            await it.watch_for(100)
        assert len(it.ended) > 1
        assert {line["event"] for line in logged} == {"cannot end an unresponsive process"}

    run(play())


@contextmanager
def process_called(title: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["bash", "-c", f"exec -a '{title}' sleep 600"]) as process:
        try:
            yield process
        finally:
            process.kill()


def known(process: subprocess.Popen[bytes]) -> Process:
    """Returns ``process`` as an actor in it reports itself."""
    return Process("node", process.pid, psutil.Process(process.pid).create_time())


def answers(monkeypatch: pytest.MonkeyPatch, error: Exception | None) -> None:
    def get(*_: object, **__: object) -> Process:
        if error is not None:
            raise error
        return HERE

    monkeypatch.setattr(ray, "get", get)


@pytest.mark.parametrize("error", [GetTimeoutError(), ActorUnavailableError("it is restarted", None)])
def test_a_process_that_does_not_answer_on_its_own_node_either_is_killed(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, error)
    with process_called("ray::CoordinatorActor") as process:
        eventually(lambda: end_if_silent(Actor(), known(process)), "it has its title, and is killed")
        assert process.wait(60) == -9
        assert not end_if_silent(Actor(), HERE._replace(pid=process.pid)), "it has ended"


def test_a_process_that_answers_on_its_own_node_or_has_reused_the_pid_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with process_called("ray::CoordinatorActor") as process, process_called("another program") as other:
        answers(monkeypatch, None)
        assert not end_if_silent(Actor(), known(process))
        answers(monkeypatch, GetTimeoutError())
        assert not end_if_silent(Actor(), known(other))
        assert (process.poll(), other.poll()) == (None, None)


def test_another_process_of_ray_that_was_given_the_number_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, GetTimeoutError())
    with process_called("ray::StreamActor") as other:
        has_title = lambda: psutil.Process(other.pid).cmdline()[:1] == ["ray::StreamActor"]  # noqa: E731
        eventually(has_title, "it has its title")
        watched = known(other)
        assert not end_if_silent(Actor(), watched._replace(created_s=watched.created_s - PROCESS_LOST_S))
        assert other.poll() is None
