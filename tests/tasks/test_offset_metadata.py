"""The times that operators remember beside offsets always fit a broker's limit (``offset.metadata.max.bytes``)."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock.common.ids import TopicPartition
from penstock.common.serdes import Serdes
from penstock.tasks.offsets import (
    LONGEST,
    STREAM_TIME,
    decode_partition_time,
    decode_remembered,
    encode_partition_time,
    fitting,
    short_name,
)
from penstock.topology.options.windows import TimeWindows
from tests.tasks.bench import STRINGS, Bench

IN = TopicPartition("in", 0)


def slots(own: int, stores: int = 0) -> dict[str, int]:
    """Returns times of these numbers of operators and stores, named as a builder names them."""
    operators = {f"KSTREAM-AGGREGATE-{number:010d}{STREAM_TIME}": 1000 + number for number in range(own)}
    return operators | {f"KSTREAM-AGGREGATE-STATE-STORE-{number:010d}": number for number in range(stores)}


@pytest.mark.parametrize(("own", "stores"), [(0, 0), (1, 0), (20, 20), (50, 0), (80, 5), (200, 3), (300, 60), (0, 90)])
def test_the_text_is_never_longer_than_a_broker_takes(own: int, stores: int) -> None:
    kept, left_out = fitting(remembered := slots(own, stores))
    text = encode_partition_time(77, kept)
    assert len(text) <= LONGEST
    assert decode_partition_time(text) == 77
    assert decode_remembered(text) == dict(kept)
    assert len(kept) + len(left_out) == len(remembered)


def test_names_stay_as_they_are_while_there_is_room() -> None:
    assert fitting(slots(30, 10)) == (slots(30, 10), ())


def test_names_of_penstocks_own_are_shortened_first() -> None:
    remembered = slots(80, 5)
    kept, left_out = fitting(remembered)
    assert left_out == ()
    assert {name: kept[short_name(name) if name.endswith(STREAM_TIME) else name] for name in remembered} == remembered


def test_entries_that_kafka_streams_keeps_too_are_left_out_last() -> None:
    kept, left_out = fitting(slots(300, 30))
    assert set(slots(0, 30)) <= set(kept)
    assert all(name.endswith(STREAM_TIME) for name in left_out)
    assert left_out[-1] == f"KSTREAM-AGGREGATE-{299:010d}{STREAM_TIME}"


def many_windows(count: int) -> ps.StreamsBuilder:
    builder = ps.StreamsBuilder()
    stream = builder.stream("in", STRINGS)
    grouped = stream.group_by_key(ps.Grouped.with_(Serdes.string(), Serdes.string()))
    for _ in range(count):
        grouped.windowed_by(TimeWindows.of_size_and_grace(10, 0)).count()
    return builder


def test_a_task_with_many_operators_continues_where_each_of_them_was() -> None:
    before = Bench(many_windows(100))
    before.feed("in", ("k", "v", 500))
    before.commit()
    committed = before.task.offsets()
    assert len(committed[IN].metadata) <= LONGEST
    after = Bench(many_windows(100), start=False)
    after.task.resume(committed)
    after.task.init(0)
    after.feed("in", ("k", "late", 100), offset=1)
    assert after.dropped == 100


def test_a_lack_of_room_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    bench = Bench(many_windows(250))
    bench.feed("in", ("k", "v", 500))
    for _ in range(3):
        assert len(bench.task.offsets()[IN].metadata) <= LONGEST
    message = capsys.readouterr()
    assert (message.out + message.err).count("has no room for all times") == 1
