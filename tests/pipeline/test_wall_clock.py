"""Punctuators by the wall clock: refused when a processor schedules one, or never called."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock.common.errors import ConfigError
from penstock.pipeline.rows import SINK
from penstock.pipeline.task_hosts.task_host import HostSettings, TaskHost
from tests.pipeline.rows import CONFIG, output, process, run
from tests.pipeline.rows import host as host_of
from tests.pipeline.topologies import STRING


class Schedules(ps.Processor[str, str, str, str]):
    """Forwards each record; schedules in ``init``, or at the record ``now``."""

    def __init__(self, clock: ps.PunctuationType, at_once: bool) -> None:
        self.clock, self.at_once = clock, at_once

    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        self.context = context
        if self.at_once:
            context.schedule(10, self.clock, self.call)

    def process(self, record: ps.Record[str, str]) -> None:
        if record.value == "now":
            self.context.schedule(10, self.clock, self.call)
        self.context.forward(record)

    def call(self, now_ms: int) -> None:
        self.context.forward(ps.Record("called", "called", now_ms))


def results(clock: ps.PunctuationType, at_once: bool, allowed: bool) -> list[bytes]:
    builder = ps.StreamsBuilder()
    lines = builder.stream("lines", ps.Consumed.with_(STRING, STRING))
    processed = lines.process(lambda: Schedules(clock, at_once), named=ps.Named.as_("ticks"))
    processed.to("out", ps.Produced.with_(STRING, STRING))
    topology = builder.build()
    topics = host_of(topology, lines=1, out=1).settings.topics
    host = TaskHost(topology.subtopologies[0], HostSettings(CONFIG, topics, {}, allow_wall_clock=allowed))
    rows = [process(0, "lines", offset, "k", "now" if offset == 1 else "v", offset) for offset in range(3)]
    return [row["value"] for row in output(run(host, rows, 1))[SINK]]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_schedule_is_refused_when_it_is_made_and_the_processor_is_named(at_once: bool) -> None:
    with pytest.raises(ConfigError, match=r"processor ticks schedules .* --allow-wall-clock"):
        results(ps.PunctuationType.WALL_CLOCK_TIME, at_once, allowed=False)


def test_if_that_is_allowed_it_is_never_called() -> None:
    assert results(ps.PunctuationType.WALL_CLOCK_TIME, True, allowed=True) == [b"v", b"now", b"v"]


def test_stream_time_needs_no_permission() -> None:
    assert b"called" in results(ps.PunctuationType.STREAM_TIME, True, allowed=False)
