"""The rules that every kind of sink keeps, by whichever means it chooses topic and partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from penstock.common.errors import ProductionError, SerializationError
from penstock.common.records import Headers
from tests.tasks.bench import STRINGS, Bench, Collector

WINDOWED = ps.WindowedSerdes.time_windowed_serde_from(ps.Serdes.string(), 10)


class Counting:
    """A string serde, which counts what it serialises and refuses "?"."""

    def __init__(self) -> None:
        self.serialized = 0
        self.serde = ps.Serde("counting", self._serialize, bytes.decode)

    def _serialize(self, value: str) -> bytes:
        if value == "?":
            raise SerializationError("a question mark")
        self.serialized += 1
        return value.encode()


class Refusing(Collector):
    """A collector that refuses every result, as a producer does that finds it too large."""

    def send(self, *result: Any) -> None:
        raise ProductionError("too large", key=result[1])


Write = Callable[[ps.KStream[str, str], ps.Produced[str, str]], None]


def plain(stream: ps.KStream[str, str], produced: ps.Produced[str, str]) -> None:
    stream.to("out", produced)


def partitioned(stream: ps.KStream[str, str], produced: ps.Produced[str, str]) -> None:
    stream.to("out", produced.with_stream_partitioner(lambda topic, key, value, partitions: {0, 2}))


def to_a_chosen_topic(stream: ps.KStream[str, str], produced: ps.Produced[str, str]) -> None:
    stream.to(lambda key, value, context: "out", produced)


def windowed(stream: ps.KStream[str, str], produced: ps.Produced[str, str]) -> None:
    def in_a_window(key: str, value: str) -> ps.Windowed[str]:
        return ps.Windowed(key, ps.Window(0, 10)) if key else None  # type: ignore[return-value]  # a null key

    assert produced.value_serde is not None
    stream.select_key(in_a_window).to("out", ps.Produced.with_(WINDOWED, produced.value_serde))


KINDS = pytest.mark.parametrize("write", [plain, partitioned, to_a_chosen_topic, windowed])


def bench(write: Write, values: Counting) -> Bench:
    builder = ps.StreamsBuilder()
    write(builder.stream("in", STRINGS), ps.Produced.with_(ps.Serdes.string(), values.serde))
    return Bench(builder, partitions=3)


@KINDS
def test_a_result_is_serialised_once_for_all_its_partitions(write: Write) -> None:
    values = Counting()
    sent = bench(write, values).feed("in", ("k", "v", 7))
    assert values.serialized == 1
    assert len(sent) == (2 if write is partitioned else 1)


@KINDS
def test_a_null_value_is_sent_as_null_without_a_call_of_its_serde(write: Write) -> None:
    values = Counting()
    sent = bench(write, values).feed("in", ("k", None, 7))
    assert values.serialized == 0
    assert {result.value for result in sent} == {None}


@KINDS
def test_a_null_key_is_sent_as_null(write: Write) -> None:
    sent = bench(write, Counting()).feed("in", (None, "v", 7))
    assert {result.key for result in sent} == {None}
    assert {result.partition for result in sent} == ({0, 2} if write is partitioned else {-1})


@KINDS
def test_a_result_keeps_timestamp_and_headers(write: Write) -> None:
    headers: Headers = (("h", b"1"),)
    sent = bench(write, Counting()).feed("in", ("k", "v", 7, headers))
    assert {(result.timestamp, result.headers) for result in sent} == {(7, headers)}


@KINDS
def test_a_value_that_its_serde_refuses_is_named_with_its_record_and_nothing_is_sent(write: Write) -> None:
    refused = bench(write, Counting())
    with pytest.raises(ProductionError, match=r"cannot be serialised: value: .*mark") as error:
        refused.feed("in", ("k", "?", 7))
    assert (error.value.topic, error.value.partition, error.value.offset) == ("in", 0, 0)
    assert refused.collector.sent == []


@KINDS
def test_a_result_that_the_producer_refuses_is_named_with_its_record(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.tasks.bench.Collector", Refusing)
    with pytest.raises(ProductionError, match="too large") as error:
        bench(write, Counting()).feed("in", ("k", "v", 7))
    assert (error.value.topic, error.value.partition, error.value.offset) == ("in", 0, 0)


def test_all_windows_of_a_key_go_to_one_partition() -> None:
    builder = ps.StreamsBuilder()
    keyed = builder.stream("in", STRINGS).select_key(lambda key, value: ps.Windowed(key, ps.Window(int(value), 10**6)))
    keyed.to("out", ps.Produced.with_(WINDOWED, ps.Serdes.string()))
    sent = Bench(builder, partitions=64).feed("in", *[("k", str(start), 7) for start in range(20)])
    assert len({result.key for result in sent}) == 20
    assert len({result.partition for result in sent}) == 1
    assert sent[0].partition >= 0
