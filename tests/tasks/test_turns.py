"""Records of two inputs that alternate are taken in one loop, in the very order in which the group would serve them."""

from __future__ import annotations

import random
from typing import Any

import pytest

from penstock.common.errors import RecordError
from penstock.tasks import turns
from penstock.topology.dsl.streams_builder import StreamsBuilder
from tests.tasks.bench import LONGS, STRINGS, Bench, Resume, Row, values

SERDES = {"default.key.serde": STRINGS.key_serde, "default.value.serde": STRINGS.value_serde}


def merging() -> Bench:
    builder = StreamsBuilder()
    builder.stream("left", STRINGS).merge(builder.stream("right", STRINGS)).to("out")
    return Bench(builder, SERDES)


def random_batches(chance: random.Random) -> list[tuple[str, list[Row]]]:
    """Batches of both topics; many records have the same timestamp, and some are late."""
    batches, now, counted = [], {"left": 10, "right": 10}, 0
    for _ in range(chance.randrange(2, 9)):
        topic = chance.choice(["left", "right"])
        rows = []
        for _ in range(chance.choice([1, 5, 60, 200])):
            now[topic] += chance.choice([0, 0, 0, 1, 3])
            counted += 1
            rows.append(Row("key", f"{topic}-{counted}", max(0, now[topic] - chance.choice([0, 0, 0, 9]))))
        batches.append((topic, rows))
    return batches


@pytest.fixture
def turns_taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns the number of records that each loop has processed; 0 of one that an error has ended."""
    taken: list[int] = []

    def noted(*given: Any) -> int:
        try:
            done = turns.take_turns(*given)
        except RecordError:
            taken.append(0)
            raise
        if done:
            taken.append(done)
        return done

    monkeypatch.setattr("penstock.tasks.task.take_turns", noted)
    return taken


def test_the_order_is_that_of_one_record_at_a_time(turns_taken: list[int]) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(60):
        batches = random_batches(chance)
        alone, together = merging(), merging()
        for topic, rows in batches:
            alone.add(topic, *rows)
            together.add(topic, *rows)
            most = chance.choice([1, 31, 33, 100, 1000])
            for _ in range(most):
                alone.task.process(1, 0)  # which is too few for the loop
            left = most
            while left and (done := together.task.process(left, 0)):
                left -= done
            assert together.collector.sent == alone.collector.sent
            assert together.task.offsets() == alone.task.offsets()
            assert together.task.metrics() == alone.task.metrics()
        alone.run()
        together.run()
        assert together.collector.sent == alone.collector.sent
        assert together.task.metrics() == alone.task.metrics()
    assert sum(turns_taken) > 100, "the loop was not tried"


def test_no_more_records_are_taken_than_were_asked_for(turns_taken: list[int]) -> None:
    bench = merging()
    for topic in ("left", "right"):
        bench.add(topic, *[("key", f"{topic}-{number}", 5) for number in range(100)])
    assert bench.task.process(77, 0) == 77
    assert turns_taken
    assert [value.partition("-")[0] for value in values(bench.collector.take()) if value] == ["left", "right"] * 38 + [
        "left"
    ]


def test_an_error_names_the_record_that_is_current(turns_taken: list[int]) -> None:
    def refuse(value: str) -> str:
        if value == "right-7":
            raise ValueError("no")
        return value

    builder = StreamsBuilder()
    both = builder.stream("left", STRINGS).merge(builder.stream("right", STRINGS))
    both.map_values(refuse).to("out")
    bench = Bench(builder, {**SERDES, "processing.exception.handler": (dropped := Resume())})
    bench.add("left", *[("key", f"left-{number}", 5) for number in range(40)], offset=1000)
    bench.add("right", *[("key", f"right-{number}", 5) for number in range(40)], offset=2000)
    bench.run()
    assert turns_taken
    ((context, _, error),) = dropped.caught
    assert isinstance(error, ValueError)
    assert (context.topic, context.offset, context.source_raw_value) == ("right", 2007, b"right-7")
    assert len(bench.collector.take()) == 79


def test_a_bad_record_ends_the_task_when_its_turn_comes(turns_taken: list[int]) -> None:
    builder = StreamsBuilder()
    builder.stream("left", LONGS).map_values(str).merge(builder.stream("right", STRINGS)).to("out")
    bench = Bench(builder, SERDES)
    bench.add("left", *[("key", number, 5) for number in range(40)], ("key", b"bad", 5), ("key", 41, 5))
    bench.add("right", *[("key", f"right-{number}", 5) for number in range(80)])
    with pytest.raises(RecordError) as raised:
        bench.run()
    assert (raised.value.topic, raised.value.offset) == ("left", 40)
    assert turns_taken
    assert len(bench.collector.take()) == 79


def test_records_with_headers_keep_them(turns_taken: list[int]) -> None:
    bench = merging()
    headers = [("h", b"1")]
    bench.add("left", *[Row("key", f"left-{number}", 5, headers) for number in range(40)])
    bench.add("right", *[Row("key", f"right-{number}", 5) for number in range(40)])
    bench.run()
    sent = bench.collector.take()
    assert not turns_taken
    assert [bool(each.headers) for each in sent[:4]] == [True, False, True, False]
