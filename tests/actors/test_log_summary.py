"""The line of the log about what a stream actor has done: each ``log.summary.interval.ms``."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

import penstock as ps
from penstock.actors.loop.log_summary import LogSummary, Totals
from tests.actors.rig import STRING, Rig, settle


def lines(summary: LogSummary, *looks: tuple[float, Totals]) -> list[Any]:
    with capture_logs() as logged:
        for now_s, totals in looks:
            summary.look(now_s, totals)
    return [(each["records"], each["punctuators"], each["commits"], each["seconds"]) for each in logged]


def test_each_line_has_what_was_done_since_the_last_one() -> None:
    looks = (11.0, Totals(5, 1, 0)), (70.0, Totals(9, 1, 2)), (71.0, Totals(9, 1, 2)), (130.4, Totals(10, 3, 3))
    assert lines(LogSummary(60_000, 10.0), *looks) == [(9, 1, 2, 60), (1, 2, 1, 60)]


@pytest.mark.parametrize("interval_ms", [0, -1])
def test_no_interval_means_no_line(interval_ms: int) -> None:
    assert lines(LogSummary(interval_ms, 0.0), (1000.0, Totals(1, 1, 1))) == []


class Ticks(ps.ContextualProcessor[str, str, str, str]):
    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        super().init(context)
        context.schedule(timedelta(milliseconds=10), ps.PunctuationType.STREAM_TIME, lambda _: None)

    def process(self, record: ps.Record[str, str]) -> None:
        pass


def test_an_actor_logs_its_records_punctuators_and_commits(tmp_path: Path) -> None:
    builder = ps.StreamsBuilder()
    builder.stream("in", ps.Consumed.with_(STRING, STRING)).process(Ticks)
    rig = Rig(tmp_path, builder.build(), log_summary_interval_ms=1000)
    loop = rig.running()
    rig.write("in", ("a", "x", 1), ("a", "x", 15), ("a", "x", 16))
    settle(loop)
    rig.commit(loop)
    rig.clock.now_ms += 1000
    with capture_logs() as logged:
        asked = loop.status()
        settle(loop)
    assert asked.result().tasks[0].records_processed == 3
    [line] = [each for each in logged if each["event"] == "processed since the last summary"]
    assert (line["records"], line["punctuators"], line["commits"]) == (3, 2, 1)
