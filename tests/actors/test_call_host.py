"""The runner of live calls: an event loop and threads, and calls that never return."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
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


def _pass_through(host: Host) -> None:
    """Waits until the event loop has done what it had to do by now."""
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), host.calls.loop).result(PATIENCE_S)


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


def test_an_exit_in_a_coroutine_or_in_a_task_of_its_own_ends_neither_event_loop_nor_other_calls(host: Host) -> None:
    async def leave() -> None:
        raise SystemExit

    async def leave_aside() -> str:
        with suppress(SystemExit):
            await asyncio.get_running_loop().create_task(leave())
        return "aside"

    host.start(leave)
    host.start(leave_aside)
    host.start(later, "other")
    found = {finished.result or str(finished.error) for finished in host.take(3)}
    assert found == {"the call ended with SystemExit()", "aside", "other"}


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


def test_threads_that_are_lost_for_ever_are_replaced_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.actors.calls.call_threads._MOST_LOST", 2)
    threads, release = CallThreads(most=1), threading.Event()
    began: list[threading.Event] = [threading.Event() for _ in range(4)]

    def hang(event: threading.Event) -> None:
        event.set()
        release.wait(PATIENCE_S)

    for event in began[:3]:
        threads.run(partial(hang, event))
        assert event.wait(PATIENCE_S)
        threads.lost()
    threads.run(began[3].set)
    assert threads._threads == 3
    assert not began[3].is_set()
    release.set()
    assert began[3].wait(PATIENCE_S)
    threads.close()


def test_a_system_without_threads_delays_calls_and_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, release, done = CallThreads(), threading.Event(), threading.Event()
    threads.run(partial(_wait, release))

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        threads.run(done.set)
    release.set()
    assert done.wait(PATIENCE_S)
    threads.close()


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


def test_a_call_that_is_given_up_before_a_thread_comes_to_it_never_begins(host: Host) -> None:
    host.calls.threads = CallThreads(most=1)
    began, release, first = threading.Event(), threading.Event(), threading.Event()

    def hang() -> None:
        first.set()
        release.wait(PATIENCE_S)

    host.start(hang)
    assert first.wait(PATIENCE_S)
    call = host.start(began.set)
    host.runner.cancel([call])
    assert host.calls.threads.lost_threads == 0
    host.start(str, "next")
    release.set()
    assert [finished.result for finished in host.take(2)] == [None, "next"]
    assert not began.is_set()


@pytest.mark.parametrize("end", ["given up", "closed"])
def test_what_a_thread_returns_to_be_awaited_is_dropped_if_nobody_waits_for_it(host: Host, end: str) -> None:
    began, release, awaited = threading.Event(), threading.Event(), threading.Event()

    async def note() -> None:
        awaited.set()

    def hang() -> Any:
        began.set()
        release.wait(PATIENCE_S)
        return note()

    call = host.start(hang)
    assert began.wait(PATIENCE_S)
    if end == "given up":
        host.runner.cancel([call])
    else:
        host.runner.close()
    release.set()
    eventually(lambda: host.calls.threads.lost_threads == 0, "the thread is found")
    _pass_through(host)
    assert not awaited.is_set()


def test_calls_of_a_task_that_ends_before_the_event_loop_comes_to_them_never_begin(host: Host) -> None:
    release, blocked, began = threading.Event(), threading.Event(), threading.Event()

    async def block() -> None:
        blocked.set()
        release.wait(PATIENCE_S)  # what a coroutine must not do

    async def note() -> None:
        began.set()

    host.calls.runner().start([Call(block, (), 1000.0, None)])
    assert blocked.wait(PATIENCE_S)
    host.start(note)
    host.runner.close()
    release.set()
    _pass_through(host)
    assert not began.is_set()


def test_a_call_that_ends_while_others_are_taken_does_not_keep_later_ones_from_waking_the_loop(host: Host) -> None:
    runner: Any = host.runner
    calls = [Call(later, (), 1000.0, None) for _ in range(3)]

    class Done(deque[Finished]):
        """While it is counted, another call ends."""

        def __len__(self) -> int:
            if len(calls) == 2:
                runner._ended(Finished(calls.pop(), None, None))
            return super().__len__()

    runner._done = Done()
    runner._ended(Finished(calls.pop(), None, None))
    assert len(runner.finished()) == 2
    assert runner.finished() == []
    host.woken.clear()
    runner._ended(Finished(calls.pop(), None, None))
    assert host.woken.is_set()


def test_calls_that_end_after_the_task_wake_nothing(host: Host) -> None:
    release = threading.Event()
    host.start(release.wait, PATIENCE_S)
    host.runner.close()
    release.set()
    eventually(lambda: host.calls.threads.lost_threads == 0, "the thread is found")
    assert not host.woken.is_set()
    assert not host.runner.finished()


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
