"""Partitioners of sinks: one partition, several, none, or Kafka's default (KIP-837)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from penstock.common.errors import ProcessingError
from penstock.topology.physical.operators.foreign_key import by_key
from tests.tasks.bench import STRINGS, Bench, Resume

PRODUCED = ps.Produced.with_(ps.Serdes.string(), ps.Serdes.string())


def chosen(topic: str, key: str, value: Any, partitions: int) -> Any:
    """Returns the value as a Python literal; ``all`` means all partitions."""
    return set(range(partitions)) if value == "all" else eval(value)


def to(builder: ps.StreamsBuilder) -> str:
    builder.stream("in", STRINGS).to("out", PRODUCED.with_stream_partitioner(chosen))
    return "out"


def to_chosen_topic(builder: ps.StreamsBuilder) -> str:
    builder.stream("in", STRINGS).to(lambda key, value, context: "out", PRODUCED.with_stream_partitioner(chosen))
    return "out"


def repartition(builder: ps.StreamsBuilder) -> str:
    how = ps.Repartitioned.with_(ps.Serdes.string(), ps.Serdes.string()).with_name("r")
    builder.stream("in", STRINGS).repartition(how.with_stream_partitioner(chosen)).to("out", PRODUCED)
    return "app-r-repartition"


@pytest.mark.parametrize("sink", [to, to_chosen_topic, repartition])
@pytest.mark.parametrize(
    ("choice", "partitions"),
    [
        ("2", [2]),
        ("None", [-1]),
        ("{3, 0}", [0, 3]),
        ("[1]", [1]),
        ("(1, 1)", [1]),
        ("frozenset({1})", [1]),
        ("all", [0, 1, 2, 3]),
        ("set()", []),
    ],
)
def test_a_record_goes_to_every_partition_that_is_chosen(
    sink: Callable[[ps.StreamsBuilder], str], choice: str, partitions: list[int]
) -> None:
    builder = ps.StreamsBuilder()
    topic = sink(builder)
    bench = Bench(builder, partitions=4)
    sent = [each for each in bench.feed("in", ("k", choice, 7)) if each.topic == topic]
    assert [(each.partition, each.key, each.value, each.timestamp) for each in sent] == [
        (partition, b"k", choice.encode(), 7) for partition in partitions
    ]
    assert bench.dropped == (0 if partitions else 1)


def test_a_record_for_no_partition_is_reported_and_dropped_before_it_is_serialised(
    capsys: pytest.CaptureFixture[str],
) -> None:
    builder = ps.StreamsBuilder()
    unwritable = ps.Produced.with_(ps.Serdes.string(), ps.Serdes.long(), partitioner=lambda *record: set[int]())
    builder.stream("in", STRINGS).to("out", unwritable)  # type: ignore[arg-type]  # on purpose: values are no numbers
    bench = Bench(builder)
    assert bench.feed("in", ("k", "v")) == []
    assert bench.dropped == 1
    message = capsys.readouterr()
    assert "Skipping record as partitioner returned empty partitions." in message.out + message.err


@pytest.mark.parametrize(
    ("choice", "shown"), [("'ab'", r"'ab' \(str\)"), ("1.5", r"1.5 \(float\)"), ("['0']", r"\['0'\]")]
)
def test_an_invalid_partition_is_reported_with_the_values_that_a_partitioner_may_return(
    choice: str, shown: str
) -> None:
    builder = ps.StreamsBuilder()
    to(builder)
    with pytest.raises(ProcessingError, match=f"the partitioner of topic out chose {shown}.*return the number of"):
        Bench(builder, partitions=4).feed("in", ("k", choice))


@pytest.mark.parametrize("choice", ["{0, 4}", "[-1]", "'ab'", "1.5", "[0.5]", "{'1'}"])
def test_partitions_that_are_not_there_are_an_error_and_nothing_is_sent(choice: str) -> None:
    builder = ps.StreamsBuilder()
    to(builder)
    bench = Bench(builder, partitions=4)
    with pytest.raises(ProcessingError):
        bench.feed("in", ("k", choice))
    assert bench.collector.take() == []
    resume = Resume()
    bench = Bench(builder, {"processing.exception.handler": resume}, partitions=4)
    assert bench.feed("in", ("k", choice)) == []
    assert (bench.dropped, len(resume.caught)) == (1, 1)


@pytest.mark.parametrize(("choice", "partition"), [(3, 3), (None, None), ({2}, 2)])
def test_a_foreign_key_join_takes_one_partition(choice: Any, partition: int | None) -> None:
    assert by_key(lambda *record: choice)("topic", "k", "v", 4) == partition


@pytest.mark.parametrize("choice", [{1, 2}, set()])
def test_a_foreign_key_join_takes_neither_several_partitions_nor_none(choice: Any) -> None:
    with pytest.raises(ValueError, match=f"chose {len(choice)} partitions.*goes to exactly one"):
        by_key(lambda *record: choice)("topic", "k", "v", 4)
