"""The runner of live calls: an event loop and threads, and calls that never return."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from penstock.actors.calls.call_host import LiveCalls
from penstock.actors.calls.call_threads import CallThreads
from penstock.tasks.contracts import Call, CallRunner, Finished
from tests.waiting import PATIENCE_S, eventually


def _wait(event: threading.Event) -> None:
    event.wait(PATIENCE_S)


class Host:
    """A host, and a runner of one task."""

    def __init__(self) -> None:
        self.woken = threading.Event()
        self.calls = LiveCalls(self.woken.set)
        self.runner: CallRunner = self.calls.runner()
        self.finished: list[Finished] = []

    def start(self, function: Callable[..., Any], *arguments: Any) -> Call:
        call = Call(function, arguments, 1000.0, None)
        self.runner.start([call])
        return call

    def take(self, count: int = 1) -> list[Finished]:
        """Waits until ``count`` calls have ended, each time woken."""
        while len(self.finished) < count:
            assert self.woken.wait(PATIENCE_S)
            self.woken.clear()
            self.finished += self.runner.finished()
        taken, self.finished = self.finished, []
        return taken


@pytest.fixture
def host() -> Iterator[Host]:
    host = Host()
    yield host
    host.runner.close()
    host.calls.close()


async def later(value: Any) -> Any:
    await asyncio.sleep(0)
    if isinstance(value, Exception):
        raise value
    return value


class Remote:
    """Looks like a method of a Ray actor: a call returns what can be awaited."""

    def remote(self, value: Any) -> Any:
        return later(value)


@pytest.mark.parametrize("function", [later, Remote().remote, lambda value: later(value)])
def test_awaitable_results_are_awaited_in_one_event_loop(host: Host, function: Any) -> None:
    for value in range(100):
        host.start(function, value)
    assert sorted(finished.result for finished in host.take(100)) == list(range(100))
    host.start(function, ValueError("no"))
    (failed,) = host.take()
    assert repr(failed.error) == "ValueError('no')"


def test_plain_functions_run_in_threads_at_the_same_time(host: Host) -> None:
    barrier = threading.Barrier(3)
    for _ in range(3):
        host.start(lambda: barrier.wait(PATIENCE_S))
    assert sorted(finished.result for finished in host.take(3)) == [0, 1, 2]


def test_an_exit_in_a_call_is_an_error_of_the_call(host: Host) -> None:
    def leave() -> None:
        raise SystemExit

    host.start(leave)
    assert "the call ended with SystemExit()" in str(host.take()[0].error)


def test_a_coroutine_that_is_given_up_is_cancelled(host: Host) -> None:
    began, ended = threading.Event(), threading.Event()

    async def never() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    call = host.start(never)
    assert began.wait(PATIENCE_S)
    host.runner.cancel([call])
    assert ended.wait(PATIENCE_S)
    host.start(later, "next")
    assert [finished.result for finished in host.take()] == ["next"]


def test_a_coroutine_that_cancels_itself_has_failed(host: Host) -> None:
    async def cancel() -> None:
        raise asyncio.CancelledError

    host.start(cancel)
    assert "cancelled by its own function" in str(host.take()[0].error)


def test_threads_of_calls_that_never_return_are_replaced() -> None:
    threads, release, done = CallThreads(most=1), threading.Event(), threading.Event()
    threads.run(partial(_wait, release))
    threads.run(done.set)
    assert not done.is_set()
    threads.lost()
    threads.run(lambda: None)
    assert done.wait(PATIENCE_S)
    release.set()
    threads.close()


def test_a_thread_that_is_given_up_counts_as_lost_until_its_call_returns(host: Host) -> None:
    began, release = threading.Event(), threading.Event()

    def hang() -> None:
        began.set()
        release.wait(PATIENCE_S)

    call = host.start(hang)
    assert began.wait(PATIENCE_S)
    host.runner.cancel([call])
    assert host.calls.threads.lost_threads == 1
    release.set()
    eventually(lambda: host.calls.threads.lost_threads == 0, "the thread is found")


def test_calls_that_end_after_the_task_wake_nothing(host: Host) -> None:
    release = threading.Event()
    host.start(release.wait, PATIENCE_S)
    host.runner.close()
    release.set()
    eventually(lambda: host.calls.threads.lost_threads == 0, "the thread is found")
    assert not host.woken.is_set()
    assert host.runner.finished() == ()


def test_an_actor_ends_although_its_calls_do_not() -> None:
    host = Host()
    release = threading.Event()
    host.start(_wait, release)
    host.start(asyncio.Event().wait)
    host.runner.close()
    host.calls.close()
    eventually(lambda: not any(each.name == "penstock-calls" for each in threading.enumerate()), "the loop has ended")
    release.set()


def test_a_call_that_is_given_up_before_the_event_loop_comes_to_it_never_begins(host: Host) -> None:
    release, began = threading.Event(), threading.Event()

    async def block() -> None:
        release.wait(PATIENCE_S)  # what a coroutine must not do

    async def note() -> None:
        began.set()

    host.start(block)
    call = host.start(note)
    host.runner.cancel([call])
    release.set()
    assert len(host.take()) == 1
    host.start(later, "next")
    assert [finished.result for finished in host.take()] == ["next"]
    assert not began.is_set()
