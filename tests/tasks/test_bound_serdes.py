"""A serde whose bytes depend on their topic and part is bound to these in every use."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import pytest

from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError, ProcessingError, RuleBrokenError
from penstock.common.records import Record
from penstock.common.serdes import Serde, Serdes
from penstock.state.stores import Stores
from penstock.tasks.program import TaskProgram
from penstock.testing.topology_test_driver import TopologyTestDriver
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Consumed, Grouped, Joined, Produced, Repartitioned
from penstock.topology.processor_api.processor import Processor, ProcessorContext
from tests.tasks.bench import APPLICATION, Bench, changelog, counting_serde

DECODED: list[bytes] = []


def mark(topic: str, part: str) -> bytes:
    """Returns the prefix of every text of a topic's keys or values."""
    return f"<{topic} {part}>".encode()


@cache
def marked(topic: str, part: str) -> Serde[str]:
    prefix = mark(topic, part)

    def deserialize(data: bytes) -> str:
        assert data.startswith(prefix), f"{data!r} is not of {topic} {part}"
        DECODED.append(data)
        return data[len(prefix) :].decode()

    return Serde(f"marked({topic} {part})", lambda text: prefix + text.encode(), deserialize, str, lossless=True)


def unbound(given: object) -> Any:
    raise AssertionError(f"used without being bound: {given!r}")


class Marking(Serde[str]):
    def bind(self, topic: str, part: str) -> Serde[str]:
        return marked(topic, part)


MARKING = Marking("marking", unbound, unbound, lossless=True)
CONFIG: dict[str, Any] = {"default.key.serde": MARKING, "default.value.serde": MARKING}
CONSUMED: Consumed[str, str] = Consumed.with_(MARKING, MARKING)
PRODUCED: Produced[str, str] = Produced.with_(MARKING, MARKING)


@pytest.fixture(autouse=True)
def _forget() -> None:
    DECODED.clear()


def at(topic: str, key: str, value: str) -> tuple[bytes, bytes]:
    """Returns key and value of a record as they are in ``topic``."""
    return mark(topic, "key") + key.encode(), mark(topic, "value") + value.encode()


def sent(bench: Bench) -> list[tuple[str, bytes | None, bytes | None]]:
    return [(each.topic, each.key, each.value) for each in bench.collector.take()]


def test_sources_repartition_topics_stores_changelogs_and_sinks_get_their_own() -> None:
    builder = StreamsBuilder()
    (
        builder.stream("in", CONSUMED)
        .select_key(lambda k, v: v)
        .repartition(Repartitioned.as_("moved"))
        .group_by_key(Grouped.with_(MARKING, MARKING))
        .reduce(lambda a, b: a + b, Materialized.as_("joined"))
        .to_stream()
        .to("out", PRODUCED)
    )
    bench = Bench(builder, CONFIG)
    moved, log = f"{APPLICATION}-moved-repartition", changelog("joined")
    bench.feed("in", (*at("in", "k", "v"), 1))
    bench.feed(moved, (*at(moved, "v", "1"), 1), (*at(moved, "v", "2"), 2))
    bench.commit()
    key, value = at(log, "v", "12")
    assert bench.look_up("joined", key, committed=True) == (key, "12", 2)
    assert bench.buffer("joined").committed.get(key) == (2).to_bytes(8, "big") + value


def test_a_sent_record_is_serialised_for_the_topic_that_it_is_sent_to() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", CONSUMED)
    stream.select_key(lambda k, v: v).repartition(Repartitioned.as_("moved")).to("out", PRODUCED)
    stream.group_by_key().reduce(lambda a, b: a + b, Materialized.as_("joined"))
    bench = Bench(builder, CONFIG)
    bench.add("in", (*at("in", "k", "v"), 1))
    bench.run()
    moved = f"{APPLICATION}-moved-repartition"
    assert sent(bench) == [(moved, *at(moved, "v", "v"))]
    bench.add(moved, (*at(moved, "v", "v"), 1))
    bench.run()
    assert sent(bench) == [("out", *at("out", "v", "v"))]
    assert [(each.key, each.value) for each in bench.flush()] == [at(changelog("joined"), "k", "v")]


def test_bytes_that_nobody_looks_at_pass_between_equal_serdes_alone() -> None:
    builder = StreamsBuilder()
    builder.stream("in", CONSUMED).to("out", PRODUCED)
    bench = Bench(builder, CONFIG)
    bench.add("in", (*at("in", "k", "v"), 1))
    bench.run()
    assert sent(bench) == [("out", *at("out", "k", "v"))]
    assert sorted(DECODED) == sorted(at("in", "k", "v"))

    DECODED.clear()
    back = StreamsBuilder()
    back.stream("in", CONSUMED).to("in", PRODUCED)
    bench = Bench(back, CONFIG)
    bench.add("in", (*at("in", "k", "v"), 1))
    bench.run()
    assert sent(bench) == [("in", *at("in", "k", "v"))]
    assert DECODED == []


def test_a_table_that_is_restored_from_its_source_keeps_the_keys_of_that_topic_undecoded() -> None:
    def table(optimization: str) -> Bench:
        builder = StreamsBuilder()
        builder.table("in", CONSUMED, Materialized.as_("rows"))
        return Bench(builder, {**CONFIG, "topology.optimization": optimization})

    key, value = at("in", "k", "v")
    reusing = table("all")
    reusing.feed("in", (key, value, 1))
    reusing.commit()
    assert key not in DECODED
    assert reusing.buffer("rows").committed.get(key) == (1).to_bytes(8, "big") + value

    logging = table("none")
    logging.feed("in", (key, value, 1))
    logging.commit()
    assert key in DECODED
    own_key, own_value = at(changelog("rows"), "k", "v")
    assert logging.buffer("rows").committed.get(own_key) == (1).to_bytes(8, "big") + own_value


def test_each_topic_of_a_source_has_its_own_and_then_nothing_passes_undecoded() -> None:
    builder = StreamsBuilder()
    builder.stream(["a", "b"], CONSUMED).to("a", PRODUCED)
    bench = Bench(builder, CONFIG)
    bench.add("a", (*at("a", "k", "1"), 1))
    bench.add("b", (*at("b", "k", "2"), 2))
    bench.run()
    assert sent(bench) == [("a", *at("a", "k", "1")), ("a", *at("a", "k", "2"))]
    assert len(DECODED) == 4


def test_a_sink_whose_topics_a_function_chooses_has_one_for_each() -> None:
    builder = StreamsBuilder()
    builder.stream("in", CONSUMED).to(lambda key, value, context: value, PRODUCED)
    bench = Bench(builder, CONFIG)
    for topic in ("x", "y", "x"):
        bench.add("in", (*at("in", "k", topic), 1))
    bench.run()
    assert sent(bench) == [(topic, *at(topic, "k", topic)) for topic in ("x", "y", "x")]


def test_a_sink_whose_function_names_no_topic_raises_an_error() -> None:
    builder = StreamsBuilder()
    choose: Any = lambda key, value, context: None  # noqa: E731  # a type checker would refuse it in its place
    builder.stream("in", CONSUMED).to(choose, PRODUCED)
    bench = Bench(builder, CONFIG)
    bench.add("in", (*at("in", "k", "v"), 1))
    with pytest.raises(ProcessingError, match="chooses topics returned None, not the name of one") as raised:
        bench.run()
    assert (raised.value.topic, raised.value.offset) == ("in", 0)


def test_a_sink_whose_topics_a_function_chooses_may_have_a_partitioner_too() -> None:
    builder = StreamsBuilder()
    asked: list[str] = []

    def partition(topic: str, key: str, value: str, partitions: int) -> int:
        asked.append(topic)
        return partitions - 1

    produced = PRODUCED.with_stream_partitioner(partition)
    builder.stream("in", CONSUMED).to(lambda key, value, context: value, produced)
    bench = Bench(builder, CONFIG, partitions=3)
    for topic in ("x", "y"):
        bench.add("in", (*at("in", "k", topic), 1))
    bench.run()
    found = [(each.topic, each.key, each.value, each.partition) for each in bench.collector.take()]
    assert found == [(topic, *at(topic, "k", topic), 2) for topic in ("x", "y")]
    assert asked == ["x", "y"]


def test_a_sink_with_a_partitioner_has_that_of_its_topic() -> None:
    builder = StreamsBuilder()
    builder.stream("in", CONSUMED).to("out", PRODUCED.with_stream_partitioner(lambda topic, k, v, count: 0))
    bench = Bench(builder, CONFIG)
    bench.add("in", (*at("in", "k", "v"), 1))
    bench.run()
    assert sent(bench) == [("out", *at("out", "k", "v"))]


def test_the_table_of_a_join_is_asked_by_the_keys_that_it_has() -> None:
    builder = StreamsBuilder()
    table = builder.table("rows", CONSUMED, Materialized.as_("rows"))
    joined: Joined[str, str, str] = Joined.with_(MARKING, MARKING, MARKING)
    builder.stream("in", CONSUMED).join(table, lambda left, right: left + right, joined).to("out", PRODUCED)
    bench = Bench(builder, CONFIG)
    bench.feed("rows", (*at("rows", "k", "right"), 1))
    bench.add("in", (*at("in", "k", "left"), 2))
    bench.run()
    assert ("out", *at("out", "k", "leftright")) in sent(bench)


class Remembering(Processor[str, str, str, str]):
    def init(self, context: ProcessorContext[str, str]) -> None:
        self.store = context.get_state_store("unlogged")

    def process(self, record: Record[str, str]) -> None:
        self.store.put(record.key, record.value)


def test_a_store_without_a_changelog_is_bound_as_if_it_had_one() -> None:
    supplier = Stores.in_memory_key_value_store("unlogged")
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store_builder(supplier, MARKING, MARKING).with_logging_disabled())
    builder.stream("in", CONSUMED).process(Remembering, "unlogged")
    bench = Bench(builder, CONFIG)
    bench.feed("in", (*at("in", "k", "v"), 1))
    bench.commit()
    key, value = at(changelog("unlogged"), "k", "v")
    assert bench.buffer("unlogged").committed.get(key) == value


def test_the_test_driver_binds_what_its_topics_are_given() -> None:
    builder = StreamsBuilder()
    counts = builder.stream("in", CONSUMED).group_by_key().count(Materialized.as_("counts"))
    counts.map_values(str).to_stream().to("out", PRODUCED)
    with TopologyTestDriver(builder.build(), CONFIG) as driver:
        given = driver.create_input_topic("in", MARKING, MARKING)
        given.pipe_input("k", "v", 1)
        given.pipe_input("k", "v", 2)
        assert driver.create_output_topic("out", MARKING, MARKING).read_key_values_to_list() == [("k", "1"), ("k", "2")]
        assert driver.get_key_value_store("counts").get("k") == 2


def test_the_test_driver_watches_what_bound_serdes_of_stores_write() -> None:
    class Losing(Serde[str]):
        def bind(self, topic: str, part: str) -> Serde[str]:
            return Serde("losing", lambda text: b"lost", bytes.decode)

    builder = StreamsBuilder()
    values: Materialized[Any, Any] = Materialized.as_("rows").with_value_serde(Losing("losing", unbound, unbound))
    builder.stream("in", CONSUMED).group_by_key().reduce(lambda old, new: new, values)
    with TopologyTestDriver(builder.build(), CONFIG) as driver, pytest.raises(RuleBrokenError, match="store rows"):
        driver.create_input_topic("in", MARKING, MARKING).pipe_input("k", "v", 1)


def test_a_bound_serde_is_the_same_object_unless_it_overrides_that() -> None:
    counted, _ = counting_serde(Serdes.string())
    for serde in (Serdes.string(), Serdes.json(dict[str, int]), counted):
        assert serde.bind("topic", "value") is serde


def program_with(serde: Serde[Any]) -> TaskProgram:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(Serdes.string(), serde)).for_each(print)
    checked = StreamsConfig.of({"application.id": APPLICATION})
    return TaskProgram.of(builder.build(checked).subtopologies, checked)


def test_a_serde_that_cannot_be_bound_is_reported() -> None:
    class Refusing(Serde[str]):
        def bind(self, topic: str, part: str) -> Serde[str]:
            raise KeyError("no such subject")

    message = r"serde refusing cannot be bound to topic 'in' \(value\): KeyError: 'no such subject'"
    with pytest.raises(ConfigError, match=message):
        program_with(Refusing("refusing", unbound, unbound))


def test_bind_must_return_a_serde() -> None:
    class Forgetful(Serde[str]):
        def bind(self, topic: str, part: str) -> Any:
            return None

    with pytest.raises(ConfigError, match=r"serde forgetful .* 'in' \(value\): its bind returned None .*not a Serde"):
        program_with(Forgetful("forgetful", unbound, unbound))


def test_a_dataclass_with_settings_of_its_own_can_be_a_serde() -> None:
    @dataclasses.dataclass(frozen=True)
    class Versioned(Serde[str]):
        version: int = 1

        def bind(self, topic: str, part: str) -> Serde[str]:
            return Serde(f"{topic} {self.version}", str.encode, bytes.decode)

    program = program_with(Versioned("versioned", unbound, unbound, version=7))
    assert program.sources["in"].value_serde.name == "in 7"
