"""A driver that takes a record past the task's queues does with it what it would do by way of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

import penstock as ps

STRING, LONG = ps.Serdes.string(), ps.Serdes.long()
STRINGS: ps.Consumed[str, str] = ps.Consumed.with_(STRING, STRING)
OUT: ps.Produced[str, str] = ps.Produced.with_(STRING, STRING)
Given = tuple[str, str | None, str | None, int, ps.Headers]


class Noting(ps.Processor[str, str, str, str]):
    """Forwards where each record came from and what time it is; ticks by stream time."""

    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        self.context = context
        context.schedule(5, ps.PunctuationType.STREAM_TIME, self.tick)

    def tick(self, now_ms: int) -> None:
        self.context.forward(ps.Record("tick", str(self.context.current_stream_time_ms()), now_ms))

    def process(self, record: ps.Record[str, str]) -> None:
        at = self.context.record_metadata()
        self.context.forward(record.with_value(f"{record.value} {at} {self.context.current_stream_time_ms()}"))


class Scattering(ps.Processor[str, str, str, str]):
    """Forwards each record twice, the second one earlier."""

    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        self.context = context

    def process(self, record: ps.Record[str, str]) -> None:
        self.context.forward(record.with_value(record.value + "x1"))
        self.context.forward(record.with_value(record.value + "y2").with_timestamp(record.timestamp // 2))


def program(processors: bool) -> ps.Topology:
    """Inputs that feed each other: one record becomes several, of one topic and of two; late times; a global table."""
    builder = ps.StreamsBuilder()
    names = builder.global_table("names", STRINGS)
    one, other = builder.stream("one", STRINGS), builder.stream("other", STRINGS)
    third = builder.stream("third", STRINGS)
    short = one.filter(lambda key, value: value is not None and len(value) < 4)
    scattered = short.process(Scattering) if processors else short.flat_map_values(lambda v: [v + "x1", v + "y2"] * 2)
    scattered.filter(lambda key, value: value.endswith("1")).to("other", OUT)
    scattered.filter(lambda key, value: value.endswith("2")).to("third", OUT)
    one.map_values(lambda value: value or "-").to("names", OUT)
    words = one.merge(other).flat_map_values(lambda value: (value or "").split("x"))
    counts = words.group_by(lambda key, value: value, ps.Grouped.with_(STRING, STRING)).count()
    counts.to_stream().map_values(str).to("counts", OUT)
    merged = other.merge(third)
    (merged.process(Noting) if processors else merged).to("noted", OUT)
    other.left_join(names, lambda key, value: key, lambda value, name: f"{value}/{name}").to("named", OUT)
    table = builder.table("table", STRINGS)
    other.left_join(table, lambda value, row: f"{value}/{row}").to("joined", OUT)
    return builder.build()


def by_the_queues(driver: ps.TopologyTestDriver) -> None:
    driver._task.process_alone = lambda *given: False  # type: ignore[method-assign]  # as for a record that may be bad


def played(given: Sequence[Given], processors: bool, alone: bool, **config: Any) -> dict[str, Any]:
    with ps.TopologyTestDriver(program(processors), config) as driver:
        if not alone:
            by_the_queues(driver)
        inputs = {topic: driver.create_input_topic(topic, STRING, STRING) for topic in ("one", "other", "table")}
        for topic, key, value, time, headers in given:
            inputs[topic].pipe_input(key, value, time, headers)
        driver.advance_wall_clock_time(1000)
        results: dict[str, Any] = {
            topic: driver.create_output_topic(topic, ps.Serdes.bytes(), ps.Serdes.bytes()).read_records_to_list()
            for topic in sorted(driver.produced_topic_names())
        }
        return {**results, "metrics": driver.metrics()}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("idle_ms", [-1, 0, 50])
@pytest.mark.parametrize("processors", [True, False])
def test_records_that_bypass_the_queues_give_the_same_results(seed: int, idle_ms: int, processors: bool) -> None:
    rng = random.Random(seed)
    given: list[Given] = [
        (
            rng.choice(("one", "other", "table")),
            rng.choice(("a", "b", None)),
            rng.choice(("xa", "b", "axb", "long axb", None)),
            rng.choice((5, 7, 12)) * (n + 1) % 40,
            rng.choice(((), [("h", b"1")])),
        )
        for n in range(15)
    ]
    config = {"max.task.idle.ms": idle_ms}
    assert played(given, processors, alone=True, **config) == played(given, processors, alone=False, **config)


def test_the_short_way_is_taken_where_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the test above, which would otherwise compare the long way with itself."""
    with ps.TopologyTestDriver(program(processors=False)) as driver:
        taken: list[bool] = []
        alone = driver._task.process_alone

        def noting(*given: Any) -> bool:
            taken.append(alone(*given))
            return taken[-1]

        monkeypatch.setattr(driver._task, "process_alone", noting)
        driver.create_input_topic("table", STRING, STRING).pipe_input("k", "v")
        driver.create_input_topic("one", STRING, STRING).pipe_input("k", "xa")
        assert taken.count(True) >= 2
