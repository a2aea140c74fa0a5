"""The time of an actor's thread that is not work on records, and Python's garbage collector."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.actors.loop.garbage import GarbageMeter
from penstock.actors.loop.mailbox import Mailbox
from penstock.actors.loop.thread_time import ThreadTime
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.metric_names import THREAD
from tests.actors.rig import CHANGELOG, Rig, settle
from tests.actors.test_metrics import SlowClock, status_of


class Waiting:
    """In place of what the loop asks: nothing to do, perhaps with records at the broker."""

    def __init__(self, behind: bool = False, may_process: bool = True) -> None:
        self.busy, self.is_behind, self.may_process = False, behind, may_process

    def step(self) -> None:
        pass


@pytest.mark.parametrize(
    ("idle", "behind", "may_process", "grows"),
    [
        (True, False, True, "idle_s"),
        (True, True, True, "fetch_wait_s"),
        (True, True, False, "idle_s"),
        (False, True, True, "broker_wait_s"),
    ],
)
def test_a_wait_is_for_records_or_for_a_broker_or_idle(idle: bool, behind: bool, may_process: bool, grows: str) -> None:
    mailbox = Mailbox(RuntimeError)
    spent = ThreadTime(time.monotonic, mailbox, None)
    waiting: Any = Waiting(behind, may_process)
    spent.answer(waiting, 0.01, idle, waiting, waiting)
    figures = {name: getattr(spent, name) for name in ("idle_s", "fetch_wait_s", "broker_wait_s")}
    assert figures.pop(grows) == mailbox.waited_s > 0
    assert set(figures.values()) == {0.0}


def test_time_for_requests_is_without_the_wait_for_them() -> None:
    now, mailbox = [0.0], Mailbox(RuntimeError)
    spent = ThreadTime(lambda: now[0], mailbox, None)

    def request() -> None:
        now[0] += 3.0

    mailbox.ask(request)
    waiting: Any = Waiting()
    spent.answer(waiting, 0.0, True, waiting, waiting)
    assert (spent.answering_s, spent.idle_s) == (3.0, 0.0)


def test_a_reader_is_behind_while_the_broker_has_more_of_what_it_may_fetch(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    reader = loop._reader
    rig.write("in", ("a", "x", 1))
    loop._reader._look_again_s = 0.0
    settle(loop)
    rig.clock.now_ms += 1000
    assert not reader.is_behind
    rig.write("in", ("a", "x", 2))
    reader.consumer.poll(0, 0)  # learns of the end
    rig.clock.now_ms += 1000
    assert reader.is_behind
    reader.hold(frozenset({TopicPartition("in", 0)}))
    assert reader.is_behind, "it looks again after a moment"
    rig.clock.now_ms += 1000
    assert not reader.is_behind


def test_an_actor_reports_the_share_of_its_restores(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.write(CHANGELOG, *((f"k{number}", "x" * 8, number + 1) for number in range(50)))
    loop = rig.loop()
    loop._time._clock_s = SlowClock(rig).monotonic_s
    status_of(loop)
    rig.assign(loop, 1, TaskId(0, 0))
    settle(loop)
    measured = status_of(loop).measured
    share = measured[THREAD, "restore-ratio"]
    assert isinstance(share, float)
    assert share > 0
    assert {(THREAD, f"{name}-ratio") for name in ("idle", "fetch-wait", "broker-wait", "query")} <= measured.keys()
    assert (THREAD, "gc-ratio") not in measured, "nothing measures the collector here"


def test_the_collector_is_measured_by_its_own_callbacks() -> None:
    meter, spent = GarbageMeter(), ThreadTime(time.monotonic, Mailbox(RuntimeError), None)
    spent.garbage = meter
    spent.measured(0.0)
    meter.install()
    try:
        gc.collect(0)
        gc.collect()
    finally:
        gc.callbacks.remove(meter.note)
    counted = meter.collections.count
    gc.collect()
    assert meter.collections.count == counted >= 2
    assert meter.full >= 1
    measured = spent.measured(1000.0)
    assert measured[THREAD, "gc-total"] == counted
    highest = measured[THREAD, "gc-latency-max"]
    assert isinstance(highest, float)
    assert highest > 0
