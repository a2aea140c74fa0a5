"""The measured work of the page, from the events of a trace."""

from __future__ import annotations

from typing import Any

from benchmarks.page_work import Work, work_of


def named(tid: int, name: str) -> dict[str, Any]:
    return {"pid": 1, "tid": tid, "name": "thread_name", "args": {"name": name}}


def ran(tid: int, name: str = "ThreadControllerImpl::RunTask", **times: int) -> dict[str, Any]:
    return {"pid": 1, "tid": tid, "name": name, **times}


def test_the_cpu_time_of_tasks_of_the_busiest_main_thread_counts() -> None:
    events = [
        ran(1, tdur=8_000, dur=90_000),
        ran(1, tdur=2_500),
        ran(1),
        ran(1, "Layout", tdur=7_000),
        ran(2, tdur=1_000),
        ran(3, tdur=50_000),
        named(1, "CrRendererMain"),
        named(2, "CrRendererMain"),
        named(3, "Compositor"),
    ]
    assert work_of(events) == Work(10.5, 8.0)


def test_a_trace_without_a_page_has_no_work() -> None:
    assert work_of([]) == Work(0.0, 0.0)
