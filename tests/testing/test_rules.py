"""The driver finds what would go wrong live in silence: changes in place, lost types, functions that never run."""

from __future__ import annotations

import json
import pickle
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy
import pytest
from pydantic import BaseModel

import penstock as ps
from penstock.common.errors import RuleBrokenError, SerializationError, StreamsError

STRING = ps.Serdes.string()
PICKY = ps.Serde("repr", lambda value: repr(value).encode(), lambda data: eval(data))
JSON: ps.Consumed[Any, Any] = ps.Consumed.with_(STRING, ps.Serdes.json())
Stream = ps.KStream[Any, Any]
Wire = Callable[[ps.StreamsBuilder, Stream], object]


def driver_of(wire: Wire, **config: Any) -> ps.TopologyTestDriver:
    builder = ps.StreamsBuilder()
    wire(builder, builder.stream("in", JSON))
    serdes = {"default.key.serde": STRING, "default.value.serde": ps.Serdes.json()}
    return ps.TopologyTestDriver(builder.build(), {**serdes, **config})


def play(wire: Wire, *values: Any, **config: Any) -> ps.TopologyTestDriver:
    driver = driver_of(wire, **config)
    if "table" in driver._offsets:
        driver.create_input_topic("table", STRING, ps.Serdes.json()).pipe_input("k", {"n": [0]})
    source = driver.create_input_topic("in", STRING, ps.Serdes.json())
    for value in values or ({"n": [1]}, {"n": [2]}):
        source.pipe_input("k", value)
    return driver


def change(*given: Any) -> Any:
    """Changes the last dict among its arguments in place, and returns it; None if there is none."""
    for each in reversed(given):
        if isinstance(each, dict):
            each.setdefault("n", []).append(7)
            return each
    return None


def change_first(first: Any, *others: Any) -> Any:
    first["n"].append(7)
    return first


def at_second_call() -> Callable[[Any, Any], Any]:
    """Called first with the table's update, then when the join looks it up."""
    calls: list[int] = []

    def run(key: Any, value: Any) -> Any:
        calls.append(1)
        return change(value) if len(calls) == 2 else value

    return run


def joined(joiner: Callable[..., Any]) -> Wire:
    return lambda b, s: s.join(b.table("table", JSON), joiner)


def through_table(table: Callable[[ps.KTable[Any, Any]], ps.KTable[Any, Any]]) -> Wire:
    return lambda b, s: s.join(table(b.table("table", JSON)), lambda value, other: 1)


def kept(name: str = "kept") -> ps.Materialized[Any, Any]:
    return ps.Materialized.as_(name)


PLACES: dict[str, tuple[str, str, Wire]] = {
    "filter": ("filter KSTREAM-FILTER-0000000001", "the value", lambda b, s: s.filter(change)),
    "filter_not": ("filter_not KSTREAM-FILTER-", "the value", lambda b, s: s.filter_not(change)),
    "map_values": ("map_values KSTREAM-MAPVALUES-", "the value", lambda b, s: s.map_values(lambda v: change(v))),
    "map_values with key": ("map_values K", "the value", lambda b, s: s.map_values(lambda k, v: change(k, v))),
    "map": ("map KSTREAM-MAP-", "the value", lambda b, s: s.map(lambda k, v: (k, change(v)))),
    "select_key": ("select_key named", "the value", lambda b, s: s.select_key(change, named="named")),
    "flat_map": ("flat_map K", "the value", lambda b, s: s.flat_map(lambda k, v: [(k, change(v))])),
    "flat_map that yields": (
        "flat_map K", "the value", lambda b, s: s.flat_map(lambda k, v: ((k, change(each)) for each in [v]))
    ),
    "flat_map_values": ("flat_map_values K", "the value", lambda b, s: s.flat_map_values(lambda v: [change(v)])),
    "peek": ("peek K", "the value", lambda b, s: s.peek(change)),
    "for_each": ("for_each K", "the value", lambda b, s: s.for_each(change)),
    "branch": ("branch b-", "the value", lambda b, s: s.split(named="b-").branch(change).no_default_branch()),
    "aggregator": (
        "aggregate K",
        "the aggregate",
        lambda b, s: s.group_by_key().aggregate(lambda: {"n": []}, lambda k, v, a: change(a), kept()),
    ),
    "aggregator, the value": (
        "aggregate K",
        "the value",
        lambda b, s: s.group_by_key().aggregate(lambda: 0, lambda k, v, a: (change(v), a)[1], kept()),
    ),
    "reducer, the aggregate": ("reduce K", "the aggregate", lambda b, s: s.group_by_key().reduce(change_first, kept())),
    "reducer, the value": ("reduce K", "the value", lambda b, s: s.group_by_key().reduce(change, kept())),
    "joiner, the value": ("join K", "the value", joined(lambda value, other: change(value))),
    "joiner, the table's value": ("join K", "the table's value", joined(lambda value, other: change(other))),
    "table filter": (
        "filter KTABLE-FILTER-", "the value", lambda b, s: s.to_table(kept()).filter(change)
    ),
    "table map_values": (
        "map_values KTABLE-MAPVALUES-", "the value", lambda b, s: s.to_table(kept()).map_values(lambda v: change(v))
    ),
    "the function that chooses a topic": (
        "to KSTREAM-SINK-", "the value", lambda b, s: s.to(lambda k, v, context: (change(v), "out")[1])
    ),
    "partitioner": (
        "to KSTREAM-SINK-",
        "the value",
        lambda b, s: s.to("out", ps.Produced.with_(partitioner=lambda topic, k, v, partitions: (change(v), 0)[1])),
    ),
    "a filtered table that is looked into": (
        "filter of the table that KSTREAM-JOIN-", "the value", through_table(lambda t: t.filter(at_second_call()))
    ),
    "a mapped table that is looked into": (
        "map_values of the table that KSTREAM-JOIN-",
        "the value",
        through_table(lambda t: t.map_values(at_second_call(), named="mapped")),
    ),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_a_change_in_place_is_an_error_that_names_operator_function_and_what_changed(place: str) -> None:
    operator, what, wire = PLACES[place]
    with pytest.raises(RuleBrokenError) as broken:
        play(wire)
    message = str(broken.value)
    assert message.startswith(operator)
    assert __file__ in message
    assert f"changed {what} in place: {{'n': [" in message
    assert re.search(r"in place: \{'n': \[(\d?)\]\} became \{'n': \[\1(, )?7\]\}\. ", message)
    assert "return, put or forward a new one" in message


def test_a_timestamp_extractor_is_watched() -> None:
    def extract(record: ps.Record[Any, Any], own: int, partition_time: int, metadata: ps.RecordMetadata) -> int:
        change(record.value)
        return own

    builder = ps.StreamsBuilder()
    builder.stream("in", JSON.with_timestamp_extractor(extract))
    driver = ps.TopologyTestDriver(builder.build())
    with pytest.raises(
        StreamsError, match=r"the timestamp extractor of KSTREAM-SOURCE-\d+: .* changed the record in place"
    ):
        driver.create_input_topic("in", STRING, ps.Serdes.json()).pipe_input("k", {"n": []})


def test_no_handler_drops_it_and_the_driver_has_ended() -> None:
    handlers = {f"{kind}.exception.handler": ps.LogAndContinue() for kind in ("processing", "deserialization")}
    driver = driver_of(lambda b, s: s.peek(change), **handlers)
    source = driver.create_input_topic("in", STRING, ps.Serdes.json())
    with pytest.raises(RuleBrokenError):
        source.pipe_input("k", {"n": []})
    with pytest.raises(StreamsError, match=r"the driver's task has ended with: peek KSTREAM-PEEK-"):
        source.pipe_input("k", {"n": []})


def test_a_change_of_a_function_that_raises_behind_it_is_found_too() -> None:
    def half(key: Any, value: Any) -> None:
        value["n"].append(7)
        raise LookupError

    with pytest.raises(RuleBrokenError, match="in place"):
        play(lambda b, s: s.peek(half), **{"processing.exception.handler": ps.LogAndContinue()})


def test_new_objects_are_right_everywhere() -> None:
    with play(
        lambda b, s: (
            s.filter(lambda k, v: v["n"] != [])
            .map(lambda k, v: (k, {**v, "m": 1}))
            .map_values(lambda v: v)
            .group_by_key()
            .aggregate(lambda: {"n": []}, lambda k, v, a: {"n": [*a["n"], *v["n"]]}, kept())
        )
    ) as driver:
        assert driver.get_key_value_store("kept").get("k") == {"n": [1, 2]}


class Busy(ps.Processor[Any, Any, Any, Any]):
    """Does ``step`` with its store and the record."""

    def __init__(self, step: Callable[[Any, Any, Any], object], scheduled: bool = False) -> None:
        self.step, self.scheduled = step, scheduled

    def init(self, context: ps.ProcessorContext[Any, Any]) -> None:
        self.context, self.store = context, context.get_state_store("kept")
        self.store.put("was", {"n": [0]})
        if self.scheduled:
            context.schedule(1, ps.PunctuationType.WALL_CLOCK_TIME, lambda now: self.step(self, self.store, None))

    def process(self, record: ps.Record[Any, Any]) -> None:
        if not self.scheduled:
            self.step(self, self.store, record)


def put_then_change(processor: Busy, store: Any, record: Any) -> None:
    value: dict[str, Any] = {"n": []}
    store.put("new", value)
    change(value)


def forward_then_change(processor: Busy, store: Any, record: Any) -> None:
    value: dict[str, Any] = {"n": []}
    processor.context.forward(ps.Record("k", value, 1))
    change(value)


STEPS: dict[str, tuple[str, Callable[[Any, Any, Any], object]]] = {
    "the record": ("the record's value", lambda p, store, record: change(record.value)),
    "get": ("a value that it got from store kept", lambda p, store, record: change(store.get("was"))),
    "get and put": ("a value that it got", lambda p, store, record: store.put("was", change(store.get("was")))),
    "range": ("a value that it got", lambda p, store, record: [change(value) for _, value in store.all()]),
    "delete": ("a value that it got", lambda p, store, record: change(store.delete("was"))),
    "put": ("a value that it put into store kept", put_then_change),
    "forward": ("the value of a record that it forwarded", forward_then_change),
}


def busy(step: Any, scheduled: bool = False) -> Wire:
    def wire(builder: ps.StreamsBuilder, stream: Stream) -> None:
        supplier = ps.Stores.in_memory_key_value_store("kept")
        builder.add_state_store(ps.Stores.key_value_store_builder(supplier, STRING, ps.Serdes.json()))
        stream.process(lambda: Busy(step, scheduled), "kept").to("out")

    return wire


@pytest.mark.parametrize("step", STEPS)
def test_a_processor_changes_neither_what_it_gets_nor_what_it_gave_away(step: str) -> None:
    what, function = STEPS[step]
    with pytest.raises(
        RuleBrokenError, match=rf"^process KSTREAM-PROCESSOR-\d+: Busy, process, changed {re.escape(what)}"
    ):
        play(busy(function))


def test_a_punctuator_is_watched() -> None:
    driver = driver_of(busy(STEPS["get"][1], scheduled=True))
    with pytest.raises(RuleBrokenError, match="Busy, a punctuator, changed a value that it got from store kept"):
        driver.advance_wall_clock_time(10)


def test_a_processor_that_puts_new_objects_is_right() -> None:
    with play(busy(lambda p, store, record: store.put("was", {"n": [*store.get("was")["n"], 1]}))) as driver:
        assert driver.get_key_value_store("kept").get("was") == {"n": [0, 1, 1]}


async def later(*given: Any) -> bool:
    return False


def one_by_one(*given: Any) -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(("function", "kind"), [(later, "coroutine"), (one_by_one, "generator")])
def test_a_generator_or_coroutine_hidden_by_a_lambda_is_found_when_it_is_called(function: Any, kind: str) -> None:
    for wire in (
        lambda b, s: s.filter(lambda k, v: function(v)),
        lambda b, s: s.peek(lambda k, v: function(v)),
        lambda b, s: s.map_values(lambda v: function(v)),
    ):
        with pytest.raises(RuleBrokenError, match=f"returned a {kind}, whose body nothing runs"):
            play(wire)


# ---- state that does not survive its serde ----


@dataclass
class Tally:
    n: int = 0
    by: dict[int, int] = field(default_factory=dict)


ILL_TYPED: Any = {1: "one"}


def lenient() -> ps.Serde[Any]:
    """JSON as the standard library writes it: int keys become text, tuples lists."""
    return ps.Serde("lenient", lambda value: json.dumps(value).encode(), json.loads)


def by_dict() -> ps.Serde[Any]:
    return ps.Serde("by dict", lambda value: json.dumps(vars(value)).encode(), json.loads)


def half() -> ps.Serde[Any]:
    return ps.Serde("half", lambda value: b"{", json.loads)


def aggregated(initial: Any, result: Any, serde: ps.Serde[Any], caching: bool = True) -> Wire:
    materialized: ps.Materialized[Any, Any] = ps.Materialized.as_("kept").with_value_serde(serde)
    how = materialized if caching else materialized.with_caching_disabled()
    return lambda b, s: s.group_by_key().aggregate(initial, result, how)


def test_a_value_that_does_not_fit_its_own_type_is_not_sent_to_the_serde_it_has() -> None:
    with pytest.raises(RuleBrokenError) as broken:
        play(aggregated(Tally, lambda k, v, a: Tally(by=ILL_TYPED), ps.Serdes.json(Tally)), 1)
    assert "the value does not fit what Tally declares" in str(broken.value)
    assert "give the store one" not in str(broken.value)


@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize(
    ("value", "serde", "message"),
    [
        ({1: 2}, lenient(), "{1: 2} (dict) comes back as {'1': 2} (dict)"),
        ((1, 2), lenient(), "(1, 2) (tuple) comes back as [1, 2] (list)"),
        (Tally(3), by_dict(), "Tally(n=3, by={}) (Tally) comes back as {'n': 3, 'by': {}} (dict)"),
        (Counter("a"), lenient(), "Counter({'a': 1}) (Counter) comes back as {'a': 1} (dict)"),
        ([Counter("a")], lenient(), "[Counter({'a': 1})] (list) comes back as [{'a': 1}] (list)"),
        ("text", half(), "'text' (str) cannot be read back (JSONDecodeError"),
    ],
)
def test_a_value_that_does_not_survive_its_serde_is_an_error_of_the_commit(
    value: Any, serde: ps.Serde[Any], message: str, caching: bool
) -> None:
    handler = {"processing.exception.handler": ps.LogAndContinue()}
    with pytest.raises(RuleBrokenError) as broken:
        play(aggregated(lambda: value, lambda k, v, a: a, serde, caching), 1, **handler)
    assert str(broken.value).startswith(f"store kept: {message}")
    assert f"Its serde is {serde.name}: give the store one that brings it back" in str(broken.value)


class Opaque:
    """Equal only to itself, as most classes are."""

    def __init__(self, n: int) -> None:
        self.n = n


class Struct(msgspec.Struct):
    n: int


class Model(BaseModel):
    n: int


@pytest.mark.parametrize(
    ("value", "serde"),
    [
        (Tally(3, {1: 2}), ps.Serdes.json(Tally)),
        (Struct(1), ps.Serdes.json(Struct)),
        (Model(n=1), ps.Serdes.json(Model)),
        ({1: 2}, PICKY),
        (0, ps.Serdes.double()),
        (True, ps.Serdes.long()),
        (0.1, ps.Serdes.float()),
        (float("nan"), ps.Serdes.double()),
        (numpy.int64(3), ps.Serdes.long()),
        (numpy.float64(0.5), ps.Serdes.json()),
        ([float(1), {"a": None}], ps.Serdes.json()),
        (Opaque(1), ps.Serde("opaque", lambda each: b"%d" % each.n, lambda data: Opaque(int(data)))),
        ({"deep": [float("nan"), Opaque(1)]}, ps.Serde("pickle", pickle.dumps, pickle.loads)),
        (numpy.int64(3), ps.Serde("pickle", pickle.dumps, pickle.loads)),
        (numpy.array([1, 2]), ps.Serde("array", lambda a: a.tobytes(), lambda data: numpy.frombuffer(data, "i8"))),
    ],
    ids=lambda each: repr(each)[:30],
)  # fmt: skip
def test_a_value_that_survives_is_right(value: Any, serde: ps.Serde[Any]) -> None:
    with play(aggregated(lambda: value, lambda k, v, a: a, serde), 1, 2) as driver:
        assert driver.get_key_value_store("kept").get("k") is not None


def test_a_dataclass_under_plain_json_is_refused_with_the_way_out() -> None:
    with pytest.raises(SerializationError, match=r"store kept.*type Tally.*Use Serdes\.json\(YourType\)"):
        play(aggregated(Tally, lambda k, v, a: Tally(a.n + 1), ps.Serdes.json()), 1)


def test_after_each_commit_the_program_continues_with_what_a_restart_would_find() -> None:
    given: list[Tally] = []
    returned: list[Tally] = []

    def count(key: Any, value: Any, tally: Tally) -> Tally:
        given.append(tally)
        returned.append(Tally(tally.n + 1))
        return returned[-1]

    play(aggregated(Tally, count, ps.Serdes.json(Tally)), 1, 2, 3)
    assert given[1:] == returned[:2]
    assert not any(each is other for each, other in zip(given[1:], returned[:2], strict=True))
