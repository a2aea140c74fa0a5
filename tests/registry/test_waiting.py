"""A registry that is slow, away, or wrong: what waits for it, and what does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

import penstock as ps
from penstock.common import may_wait
from penstock.common.may_wait import may_wait_s, may_wait_to_write_s, never_wait
from penstock.common.serdes import bound
from penstock.registry import connection
from penstock.registry.contracts import Schema, SchemaNotFoundError
from tests.waiting import PATIENCE_S

T = TypeVar("T")
Config = dict[str, Any]


@dataclass
class Item:
    name: str


@pytest.fixture
def written(config: Config) -> bytes:
    """A record, which another process wrote: this one has yet to learn its schema."""
    return bound(ps.Serdes.avro(Item), "other", "value", config).serialize(Item("a"))


def value_serde(config: Config) -> ps.Serde[Item]:
    return bound(ps.Serdes.avro(Item), "items", "value", config)


def on_a_stream_thread(call: Callable[[], T]) -> T:
    """Calls it in a thread that must not wait; raises what it raises."""
    result: list[Any] = []

    def run() -> None:
        never_wait()
        try:
            result.append(call())
        except Exception as error:
            result.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(PATIENCE_S)
    if isinstance(result[0], Exception):
        raise result[0]
    returned: T = result[0]
    return returned


def until_it_works(call: Callable[[], T]) -> T:
    """Calls it on a stream thread again and again, as the engine does."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return on_a_stream_thread(call)
        except ps.RetriableError:
            assert time.monotonic() < deadline


def test_other_threads_may_wait_and_a_stream_thread_may_not() -> None:
    def waits() -> tuple[float, float]:
        return may_wait_s(), may_wait_to_write_s()

    assert waits() == (10, 10)
    assert on_a_stream_thread(waits) == (0, 1)
    assert waits() == (10, 10)


def test_a_stream_thread_gets_an_error_at_once_and_the_record_when_the_schema_is_known(
    config: Config, written: bytes, registry: ps.MockSchemaRegistry
) -> None:
    registry.latency_ms = 1
    serde, asked = value_serde(config), len(registry.calls)
    with (
        registry._shared.lock,  # while this thread has it, the registry answers no other thread
        pytest.raises(ps.RetriableError, match=r"the schema registry mock://.* has been asked, and has not answered"),
    ):
        on_a_stream_thread(lambda: serde.deserialize(written))
    assert until_it_works(lambda: serde.deserialize(written)) == Item("a")
    assert registry.calls[asked:] == ["schema 1"]


def test_another_thread_waits_for_the_answer(config: Config, written: bytes, registry: ps.MockSchemaRegistry) -> None:
    registry.latency_ms = 50
    assert value_serde(config).deserialize(written) == Item("a")


def test_many_threads_ask_once(config: Config, written: bytes, registry: ps.MockSchemaRegistry) -> None:
    registry.latency_ms = 50
    serde, asked, found = value_serde(config), len(registry.calls), []
    threads = [threading.Thread(target=lambda: found.append(serde.deserialize(written))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert found == [Item("a")] * 8
    assert registry.calls[asked:] == ["schema 1"]


@pytest.mark.parametrize("latency_ms", [0, 5])
def test_an_outage_may_pass(latency_ms: float, config: Config, written: bytes, registry: ps.MockSchemaRegistry) -> None:
    registry.latency_ms = latency_ms
    serde = value_serde(config)
    with registry.outage():
        for _ in range(3):
            with pytest.raises(ps.RetriableError, match="does not answer"):
                serde.deserialize(written)
    assert serde.deserialize(written) == Item("a")


def test_known_schemas_are_read_and_written_during_an_outage(config: Config, registry: ps.MockSchemaRegistry) -> None:
    serde = value_serde(config)
    data = serde.serialize(Item("a"))
    serde.deserialize(data)
    with registry.outage():
        assert serde.deserialize(serde.serialize(Item("b"))) == Item("b")


def test_an_unknown_id_is_a_bad_record_and_is_asked_for_once_in_a_while(
    config: Config, registry: ps.MockSchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_MISSING_S", PATIENCE_S)
    serde = value_serde(config)
    registry.latency_ms = 1
    for _ in range(3):
        with pytest.raises(SchemaNotFoundError, match="has no schema id 9"):
            serde.deserialize(b"\0\0\0\0\x09\x02a")
    assert registry.calls == ["schema 9"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Schema('{"type": "record"'), "the registry's schema is no Avro schema"),
        (Schema('"string"'), "was written as string, and is read as record Item"),
        (Schema("{}", "JSON"), "was written as JSON, and is read as Avro"),
    ],
)
def test_a_wrong_answer_is_an_error_of_the_record(
    answer: Schema, why: str, config: Config, written: bytes, registry: ps.MockSchemaRegistry
) -> None:
    registry.answer_wrongly(1, answer)
    with pytest.raises(ps.SerializationError, match=why):
        value_serde(config).deserialize(written)


def test_a_serializer_waits_a_while_for_a_schema_that_was_not_prepared(
    config: Config, registry: ps.MockSchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    serde = value_serde(config)
    registry.latency_ms = 30
    monkeypatch.setattr(may_wait, "_STREAM_THREAD_WRITES_S", PATIENCE_S)
    assert on_a_stream_thread(lambda: serde.serialize(Item("a")))[:5] == b"\0\0\0\0\1"
    monkeypatch.setattr(may_wait, "_STREAM_THREAD_WRITES_S", 0.01)
    other = bound(ps.Serdes.avro(Item), "others", "value", config)
    with registry._shared.lock, pytest.raises(ps.RetriableError, match="has not answered"):
        on_a_stream_thread(lambda: other.serialize(Item("a")))


def test_a_stream_thread_waits_once_for_a_question_that_gets_no_answer(
    config: Config, registry: ps.MockSchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A sink serialises its record again several times, and other tasks wait as long.
    registry.latency_ms, serde = 1, value_serde(config)
    waits: list[float | None] = []

    class Unanswered(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            return False

    class Question(connection._Question):
        def __init__(self, ask: Callable[[], Any]) -> None:
            super().__init__(ask)
            self.done = Unanswered()

    monkeypatch.setattr(connection, "_Question", Question)
    for _ in range(3):
        with pytest.raises(ps.RetriableError, match="has not answered"):
            on_a_stream_thread(lambda: serde.serialize(Item("a")))
    assert waits == [1, 0, 0]


def test_prepare_does_not_wait_and_is_ready_in_the_end(config: Config, registry: ps.MockSchemaRegistry) -> None:
    serde = value_serde(config)
    registry.latency_ms = 30
    with registry.outage(), pytest.raises(ps.RetriableError, match=r"does not answer|has not answered"):
        on_a_stream_thread(serde.prepare)
    until_it_works(serde.prepare)
    asked = len(registry.calls)
    assert on_a_stream_thread(lambda: serde.serialize(Item("a")))[:5] == b"\0\0\0\0\1"
    assert registry.calls[asked:] == []


def test_a_schema_that_the_registry_refuses_is_no_error_that_passes(
    config: Config, registry: ps.MockSchemaRegistry
) -> None:
    before = '{"type":"record","name":"Item","fields":[{"name":"name","type":"long"}]}'
    registry.register("items-value", Schema(before), False)
    with pytest.raises(
        ps.SerializationError,
        match=r"items-value: it is not compatible \(BACKWARD\): Item\.name: was written as long, and is read as string",
    ):
        value_serde(config).prepare()


def counted(config: Config) -> ps.Topology:
    builder = ps.StreamsBuilder()
    items = ps.Serdes.avro(Item)
    (
        builder.stream("items", ps.Consumed.with_(ps.Serdes.string(), items))
        .group_by(lambda _, item: item.name, ps.Grouped.with_(ps.Serdes.avro(str), items))
        .reduce(lambda one, _: one, ps.Materialized.as_("last"))
        .to_stream()
        .to("out", ps.Produced.with_(ps.Serdes.avro(str), items))
    )
    return builder.build()


def test_a_program_registers_the_subjects_of_kafka_streams_when_it_begins(
    config: Config, registry: ps.MockSchemaRegistry
) -> None:
    with ps.TopologyTestDriver(counted(config), {**config, "application.id": "app"}) as driver:
        repartition = next(name for name in driver_topics(driver) if name.endswith("-repartition"))
        assert registry.subjects == sorted(
            [
                "app-last-changelog-key", "app-last-changelog-value", "out-key", "out-value",
                f"{repartition}-key", f"{repartition}-value",
            ]
        )  # fmt: skip
        driver.create_input_topic("items", ps.Serdes.string(), ps.Serdes.avro(Item)).pipe_input("k", Item("a"))
        assert driver.create_output_topic("out", ps.Serdes.avro(str), ps.Serdes.avro(Item)).read_key_value() == (
            "a",
            Item("a"),
        )


def driver_topics(driver: ps.TopologyTestDriver) -> Iterator[str]:
    return (str(node.topic) for node in driver._program.nodes if hasattr(node, "topic"))


def test_windowed_keys_and_lists_prepare_the_serde_within(config: Config, registry: ps.MockSchemaRegistry) -> None:
    windowed: ps.Serde[Any] = ps.WindowedSerdes.time_windowed_serde_from(ps.Serdes.avro(Item), 5)
    lists: ps.Serde[Any] = ps.Serdes.list(ps.Serdes.avro(Item))
    for serde in (windowed, lists):
        bound(serde, serde.name[:4], "key", config).prepare()
    assert registry.subjects == ["list-key", "time-key"]
