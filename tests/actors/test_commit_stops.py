"""The time for which commits keep records waiting, as the actor reports it."""

from __future__ import annotations

from pathlib import Path

from penstock.actors.commit_stops import CommitStopMeter, CommitStops
from tests.actors.rig import Rig, settle


class Seconds:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_each_stop_counts_by_itself_and_the_stops_of_a_commit_together() -> None:
    clock = Seconds()
    watch = CommitStopMeter(clock)
    for stops, accepted in (([0.010, 0.002], True), ([0.004], False)):
        for waited in stops:
            watch.stop()
            clock.now += waited / 2
            watch.stop()  # they wait already
            clock.now += waited / 2
            watch.resume()
            clock.now += 1.0  # records are processed
        watch.finished(accepted)
    found = watch.summary()
    assert (found.commits, found.stops) == (2, 3)
    assert [round(ms, 6) for ms in (found.p50_ms, found.p99_ms, found.max_ms)] == [4.0, 10.0, 10.0]
    assert (round(found.per_commit_avg_ms, 6), round(found.per_commit_max_ms, 6)) == (8.0, 12.0)


def test_a_commit_takes_as_long_as_from_its_first_stop_until_it_is_accepted() -> None:
    clock = Seconds()
    watch = CommitStopMeter(clock)
    for beside, accepted in ((0.5, True), (2.0, False), (0.9, True)):
        clock.now += 10.0  # until the next one begins
        watch.stop()
        clock.now += 0.1
        watch.resume()
        clock.now += beside
        watch.stop()
        clock.now += 0.1
        watch.finished(accepted)
    found = watch.summary()
    assert (round(found.latency_avg_ms, 6), round(found.latency_max_ms, 6)) == (900.0, 1100.0)


def test_before_the_first_commit_nothing_has_stopped() -> None:
    assert CommitStopMeter(Seconds()).summary() == CommitStops()


def test_an_actor_reports_how_long_its_commits_kept_records_waiting(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    settle(loop)
    rig.commit(loop)
    asked = loop.status()
    loop.step()
    assert asked.result().commit_stops.commits == 1


def test_the_pauses_of_the_last_minute_are_reported_by_themselves() -> None:
    clock = Seconds()
    watch = CommitStopMeter(clock)
    for waited in (3.0, 0.002, 0.004, 0.003):
        watch.stop()
        clock.now += waited
        watch.finished(True)
        clock.now += 25.0
    found = watch.summary()
    assert (round(found.minute_p50_ms, 6), round(found.minute_max_ms, 6)) == (4.0, 4.0), "two of the last 60 s"
    assert found.per_commit_max_ms == 3000.0
    clock.now += 60.0
    assert watch.summary().minute_max_ms == 0.0
