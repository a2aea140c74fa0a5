"""The runner of calls in Spark's executors: threads, and calls that never return."""

from __future__ import annotations

import threading
from typing import Any

from penstock.common.calls_at_once import CallsAtOnce
from penstock.tasks.contracts import Call
from tests.waiting import PATIENCE_S, eventually


async def later(value: Any) -> Any:
    return value


def test_a_function_that_never_returns_holds_its_executor_up_until_its_time_is_over_and_no_other_call() -> None:
    runner, release, never = CallsAtOnce(2, waits=True), threading.Event(), threading.Event()
    begun: list[str] = []

    def hold() -> None:
        begun.append("")
        release.wait(PATIENCE_S)

    stuck = Call(hold, (), 20.0, "stuck")
    waiting = Call(never.set, (), 20.0, "waits for a thread")
    whole_ms = PATIENCE_S * 1000
    runner.start([stuck, Call(str, (1,), whole_ms, "plain"), Call(lambda: later(2), (), whole_ms, "awaitable")])
    assert sorted((end.call.owner, end.result) for end in runner.finished()) == [("awaitable", 2), ("plain", "1")]

    def both_are_held() -> bool:
        runner.start([stuck])
        return len(begun) >= 2

    # A call may be given up before its thread begins.
    eventually(both_are_held, "both threads hang")
    runner.start([waiting])
    assert runner.finished() == []
    release.set()
    runner.close()
    assert not never.is_set()
