"""The stream loop gives the ticks by which windows close on an idle topic, and commits how far time has gone on."""

from __future__ import annotations

from pathlib import Path

import penstock as ps
from penstock.actors.loop.stream_loop import StreamLoop
from tests.actors.rig import LONG, STRING, Rig, settle


def final_counts() -> ps.Topology:
    builder = ps.StreamsBuilder()
    windowed = builder.stream("in", ps.Consumed.with_(STRING, STRING)).group_by_key()
    counts = windowed.windowed_by(ps.TimeWindows.of_size_with_no_grace(10)).emit_strategy(
        ps.EmitStrategy.on_window_close()
    )
    stream = counts.count(ps.Materialized.as_("counts")).to_stream(lambda key, count: f"{key.key}@{key.window.start}")
    stream.to("out", ps.Produced.with_(STRING, LONG))
    return builder.build()


def wait(rig: Rig, loop: StreamLoop, ms: int) -> None:
    """Let the loop look at the clock all the time: no more than a second of a pause is counted."""
    for begin in range(0, ms, 1000):
        rig.clock.now_ms += min(1000, ms - begin)
        settle(loop)


def test_windows_close_without_records_and_what_comes_then_is_late_over_a_restart(tmp_path: Path) -> None:
    rig = Rig(tmp_path, final_counts(), window_idle_advance_ms=5000)
    loop = rig.running()
    rig.write("in", ("a", "x", 105), ("a", "y", 106))
    settle(loop)
    wait(rig, loop, 4999)
    assert rig.counts() == []
    rig.clock.now_ms += 5
    settle(loop)
    assert rig.counts() == [("a@100", 2)]
    rig.commit(loop)
    rig.stop(loop)
    loop = rig.running(epoch=2)
    rig.write("in", ("a", "late", 107), ("b", "late", 4000))
    rig.commit(loop)
    wait(rig, loop, 20_000)
    assert rig.counts() == [("a@100", 2)]
    status = loop.status()
    loop.step()
    assert [task.dropped_records for task in status.result().tasks] == [2]


def test_records_that_were_not_fetched_keep_time_from_advancing(tmp_path: Path) -> None:
    rig = Rig(tmp_path, final_counts(), window_idle_advance_ms=5000)
    loop = rig.running()
    rig.write("in", ("a", "x", 105))
    settle(loop)
    rig.clock.now_ms += 60_000  # the loop was not there for a minute: a slow function, a machine that slept
    rig.write("in", ("a", "y", 106))
    settle(loop)
    assert rig.counts() == []
    wait(rig, loop, 5005)
    assert rig.counts() == [("a@100", 2)]


def test_nor_does_it_continue_by_a_pause_of_which_the_client_has_not_fetched_yet(tmp_path: Path) -> None:
    """A process that was frozen looks at the clock before the client's threads have asked the broker."""
    rig = Rig(tmp_path, final_counts(), window_idle_advance_ms=5000)
    loop = rig.running()
    rig.write("in", ("a", "x", 105))
    settle(loop)
    rig.clock.now_ms += 60_000
    settle(loop)
    rig.write("in", ("a", "y", 106))
    settle(loop)
    assert rig.counts() == []
    wait(rig, loop, 5005)
    assert rig.counts() == [("a@100", 2)]
