"""From the steps of a parity case to a topology: each step is the call of the DSL that its ``op`` names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from penstock.common.serdes import Serde, Serdes
from penstock.state.stores import Stores
from penstock.topology.dsl.branched import Branched
from penstock.topology.dsl.kgrouped_stream import KGroupedStream
from penstock.topology.dsl.kgrouped_table import KGroupedTable
from penstock.topology.dsl.kstream import KStream
from penstock.topology.dsl.ktable import KTable
from penstock.topology.dsl.session_windowed_kstream import SessionWindowedKStream
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.dsl.topology import Topology
from penstock.topology.options.materialized import Materialized, StoreType
from penstock.topology.options.options import Consumed, Grouped, Joined, Produced, Repartitioned
from penstock.topology.processor_api.processor import Processor
from tests.parity import functions, ops_by_hand, ops_windows, processors
from tests.parity.ops_by_hand import ByHandSteps
from tests.parity.ops_cogroup import CogroupSteps
from tests.parity.ops_foreign_key import ForeignKeyOps
from tests.parity.ops_globals import GlobalOps
from tests.parity.ops_own import OwnSteps
from tests.parity.ops_sessions import SessionSteps, merged
from tests.parity.ops_stream_joins import StreamJoinSteps
from tests.parity.ops_suppress import SuppressSteps
from tests.parity.ops_tables import TableOps
from tests.parity.ops_versioned import VersionedSteps, versioned

SERDES: dict[str, Serde[Any]] = {"string": Serdes.string(), "long": Serdes.long(), "bytes": Serdes.bytes()}

Step = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Built:
    """A case's topology and what a player must know of it."""

    topology: Topology
    sinks: list[tuple[str, str, str]]
    """Topic, type of keys, type of values, in the order of the calls."""
    stores: list[str]
    """The named key-value stores."""
    inputs: dict[str, tuple[str, str]]
    """Per input topic the types of keys and values."""


@dataclass(frozen=True)
class _Result:
    """The result of a step, with the types of its keys and values."""

    stream: Any
    key: str
    value: str


def build(case: dict[str, Any]) -> Built:
    """The topology of ``case``, with its configuration's optimisations."""
    steps = _Steps()
    for step in case["topology"]:
        if step["op"] not in ops_by_hand.OPS:
            steps.run(step)
    inputs = {
        topic: (step.get("key", "string"), step.get("value", "string"))
        for step in case["topology"]
        if step["op"] not in ("to", "add_sink")
        for topic in step.get("topics", [step["topic"]] if "topic" in step else [])
    }
    dsl = any(step["op"] not in ops_by_hand.OPS for step in case["topology"])
    topology = steps.builder.build(case["config"]) if dsl else Topology()
    return Built(steps.add_by_hand(topology, case["topology"]), steps.sinks, steps.stores, inputs)


class _Steps(
    ByHandSteps,
    SuppressSteps,
    TableOps,
    ForeignKeyOps,
    StreamJoinSteps,
    GlobalOps,
    CogroupSteps,
    SessionSteps,
    VersionedSteps,
    OwnSteps,
):
    """The calls of one case, one method per kind of ``op``."""

    def __init__(self) -> None:
        self.builder = StreamsBuilder()
        self.sinks: list[tuple[str, str, str]] = []
        self.stores: list[str] = []
        self._results: dict[str, _Result] = {}

    def run(self, step: Step) -> None:
        """Make the call and keep what it returned."""
        source = self._results.get(step.get("in", ""), _Result(None, "string", "string"))
        call: Callable[[Step, _Result], _Result | None] | None = getattr(self, f"_{step['op']}", None)
        if call is None:
            raise ValueError(f"unknown operator {step['op']!r}")
        try:
            result = call(step, source)
        except Exception as error:
            what = f"operator {step['op']!r} of step {step.get('id')!r}"
            raise ValueError(f"{what}: {type(error).__name__}: {error}") from error
        if result is not None:
            self._results[step["id"]] = result

    def _stream(self, step: Step, _: _Result) -> _Result:
        key, value = step.get("key", "string"), step.get("value", "string")
        topics = step["topics"] if "topics" in step else step["topic"]
        return _Result(self.builder.stream(topics, _consumed(step, key, value)), key, value)

    def _table(self, step: Step, _: _Result) -> _Result:
        key, value = step.get("key", "string"), step.get("value", "string")
        kept = self._kept(step, key, value)
        return _Result(self.builder.table(step["topic"], _consumed(step, key, value), *kept), key, value)

    def _filter(self, step: Step, source: _Result) -> _Result:
        predicate, kept = partial(functions.predicate, step["fn"]), self._kept(step, source.key, source.value)
        return self._same_types(source, source.stream.filter(predicate, *kept, named=step.get("named")))

    def _filter_not(self, step: Step, source: _Result) -> _Result:
        predicate, kept = partial(functions.predicate, step["fn"]), self._kept(step, source.key, source.value)
        return self._same_types(source, source.stream.filter_not(predicate, *kept, named=step.get("named")))

    def _map_values(self, step: Step, source: _Result) -> _Result:
        value = step.get("value", source.value)
        mapper, kept = partial(functions.mapped_value, step["fn"]), self._kept(step, source.key, value)
        return _Result(source.stream.map_values(mapper, *kept, named=step.get("named")), source.key, value)

    def _map(self, step: Step, source: _Result) -> _Result:
        key_fn, fn = step["key_fn"], step["fn"]
        stream = _kstream(source).map(
            lambda k, v: (functions.key_of(key_fn, k, v), functions.mapped_value(fn, v)), named=step.get("named")
        )
        return _Result(stream, "string", step.get("value", source.value))

    def _flat_map_values(self, step: Step, source: _Result) -> _Result:
        mapper = partial(functions.flat, step["fn"])
        return self._same_types(source, _kstream(source).flat_map_values(mapper, named=step.get("named")))

    def _flat_map(self, step: Step, source: _Result) -> _Result:
        key_fn, fn = step["key_fn"], step["fn"]
        stream = _kstream(source).flat_map(
            lambda k, v: [(functions.key_of(key_fn, k, each), each) for each in functions.flat(fn, v)],
            named=step.get("named"),
        )
        return _Result(stream, "string", source.value)

    def _select_key(self, step: Step, source: _Result) -> _Result:
        selector = partial(functions.key_of, step["fn"])
        return _Result(_kstream(source).select_key(selector, named=step.get("named")), "string", source.value)

    def _peek(self, step: Step, source: _Result) -> _Result:
        return self._same_types(source, _kstream(source).peek(lambda key, value: None, named=step.get("named")))

    def _for_each(self, step: Step, source: _Result) -> None:
        _kstream(source).for_each(lambda key, value: None, named=step.get("named"))

    def _merge(self, step: Step, source: _Result) -> _Result:
        other = self._results[step["with"]].stream
        return self._same_types(source, _kstream(source).merge(other, named=step.get("named")))

    def _branch(self, step: Step, source: _Result) -> None:
        name = step["name"]
        split = _kstream(source).split(named=f"{name}-")
        for number, fn in enumerate(step["fns"]):
            split = split.branch(partial(functions.predicate, fn), Branched.as_(str(number)))
        branches = split.default_branch(Branched.as_("rest"))
        for end, id in zip([*range(len(step["fns"])), "rest"], step["ids"], strict=True):
            self._results[id] = self._same_types(source, branches[f"{name}-{end}"])

    def _repartition(self, step: Step, source: _Result) -> _Result:
        how = Repartitioned.with_(SERDES[source.key], SERDES[source.value])
        how = how.with_name(step["name"]) if "name" in step else how
        return self._same_types(source, _kstream(source).repartition(how))

    def _to_table(self, step: Step, source: _Result) -> _Result:
        materialized = self._materialized(step, source.key, source.value)
        return self._same_types(source, _kstream(source).to_table(materialized, named=step.get("named")))

    def _to_stream(self, step: Step, source: _Result) -> _Result:
        if "key_fn" not in step:
            return self._same_types(source, source.stream.to_stream(named=step.get("named")))
        selector = partial(functions.key_of, step["key_fn"])
        return _Result(source.stream.to_stream(selector, named=step.get("named")), "string", source.value)

    def _group_by_key(self, step: Step, source: _Result) -> _Result:
        grouped = _grouped_by(step, source.key, source.value)
        return self._same_types(source, _kstream(source).group_by_key(grouped))

    def _group_by(self, step: Step, source: _Result) -> _Result:
        if isinstance(source.stream, KTable):
            return self._table_group_by(step, source)
        grouped = _grouped_by(step, "string", source.value)
        stream = _kstream(source).group_by(partial(functions.key_of, step["fn"]), grouped)
        return _Result(stream, "string", source.value)

    def _time_window(self, step: Step, source: _Result) -> _Result:
        return self._same_types(source, ops_windows.windowed_by_time(step, _of(KGroupedStream, source)))

    def _sliding_window(self, step: Step, source: _Result) -> _Result:
        return self._same_types(source, ops_windows.windowed_by_difference(step, _of(KGroupedStream, source)))

    def _unlimited_window(self, step: Step, source: _Result) -> _Result:
        windows = ops_windows.unlimited_windows(step)
        return self._same_types(source, _of(KGroupedStream, source).windowed_by(windows))

    def _windowed_to_stream(self, step: Step, source: _Result) -> _Result:
        return _Result(source.stream.to_stream(ops_windows.shown_key), "string", source.value)

    def _count(self, step: Step, source: _Result) -> _Result:
        materialized = self._materialized(step, source.key, "long")
        grouped = source.stream if isinstance(source.stream, KGroupedTable) else _grouped(source)
        return _Result(grouped.count(materialized, named=step.get("named")), source.key, "long")

    def _reduce(self, step: Step, source: _Result) -> _Result:
        if isinstance(source.stream, KGroupedTable):
            return self._table_reduce(step, source)
        materialized = self._materialized(step, source.key, source.value)
        fn = step["fn"]
        table = _grouped(source).reduce(
            lambda aggregate, value: functions.fold(fn, value, aggregate), materialized, named=step.get("named")
        )
        return self._same_types(source, table)

    def _aggregate(self, step: Step, source: _Result) -> _Result:
        if isinstance(source.stream, KGroupedTable):
            return self._table_aggregate(step, source)
        fn, init = step["fn"], step.get("init", "zero")
        value_type = "long" if init == "zero" else "string"
        table = _grouped(source).aggregate(
            partial(functions.initial, init),
            lambda key, value, aggregate: functions.fold(fn, value, aggregate),
            *([merged] if isinstance(source.stream, SessionWindowedKStream) else []),
            self._materialized(step, source.key, value_type),
            named=step.get("named"),
        )
        return _Result(table, source.key, value_type)

    def _stream_table(self, step: Step, source: _Result) -> _Result:
        other = self._results[step["with"]]
        if not isinstance(other.stream, KTable):
            raise ValueError(f"step {step['id']!r} joins {step['with']!r}, which is no table")
        joined = Joined.with_(SERDES[source.key], SERDES[source.value], SERDES[other.value])
        joined = joined.with_name(step["name"]) if "name" in step else joined
        joined = joined.with_grace_period(step["grace_ms"]) if "grace_ms" in step else joined
        stream = _kstream(source)
        join = stream.join if step["kind"] == "inner" else stream.left_join
        return _Result(join(other.stream, functions.pair, joined), source.key, "string")

    def _process(self, step: Step, source: _Result) -> _Result:
        supplier, stores = self._processor(step)
        stream = _kstream(source).process(supplier, *stores, named=step.get("named"))
        return _Result(stream, source.key, step.get("value", source.value))

    def _to(self, step: Step, source: _Result) -> None:
        produced = Produced.with_(SERDES[source.key], SERDES[source.value])
        _kstream(source).to(step["topic"], produced.with_name(step["named"]) if "named" in step else produced)
        self.sinks.append((step["topic"], source.key, source.value))

    def _processor(self, step: Step) -> tuple[Callable[[], Processor[Any, Any, Any, Any]], list[str]]:
        if "ttl_ms" in step:
            return self._expiring_processor(step)
        store = step.get("store")
        if store is not None:
            supplier = Stores.in_memory_key_value_store(store)
            self.builder.add_state_store(Stores.key_value_store_builder(supplier, SERDES["string"], SERDES["string"]))
        return processors.supplier(step["fn"], store or ""), [store] if store else []

    def _materialized(self, step: Step, key: str, value: str) -> Materialized[Any, Any]:
        if "history_ms" in step:
            return versioned(step, SERDES[key], SERDES[value])
        source = self._results.get(step.get("in", ""))
        how: Materialized[Any, Any] = Materialized.with_(SERDES[key], SERDES[value])
        if "store" in step:
            if "window" not in step and (source is None or not isinstance(source.stream, ops_windows.WINDOWED)):
                self.stores.append(step["store"])
            how = Materialized.as_(step["store"]).with_key_serde(SERDES[key]).with_value_serde(SERDES[value])
        if step.get("in_memory", False):
            how = how.with_store_type(StoreType.IN_MEMORY)
        if not step.get("logging", True):
            how = how.with_logging_disabled()
        if "retention_ms" in step:
            how = how.with_retention(step["retention_ms"])
        if "ttl_ms" in step:
            how = how.with_ttl(step["ttl_ms"])
        return how if step.get("caching", True) else how.with_caching_disabled()

    def _kept(self, step: Step, key: str, value: str) -> list[Materialized[Any, Any]]:
        """Returns the argument by which a table is kept in a store, if the step names one or sets when rows expire."""
        return [self._materialized(step, key, value)] if "store" in step or "ttl_ms" in step else []

    @staticmethod
    def _same_types(source: _Result, stream: Any) -> _Result:
        return _Result(stream, source.key, source.value)


def _consumed(step: Step, key: str, value: str) -> Consumed[Any, Any]:
    how = Consumed.with_(SERDES[key], SERDES[value])
    return how.with_name(step["named"]) if "named" in step else how


def _grouped_by(step: Step, key: str, value: str) -> Grouped[Any, Any]:
    how = Grouped.with_(SERDES[key], SERDES[value])
    return how.with_name(step["name"]) if "name" in step else how


def _kstream(result: _Result) -> KStream[Any, Any]:
    return _of(KStream, result)


def _grouped(result: _Result) -> Any:
    """A grouped stream, or a windowed one: they have the same aggregates."""
    if isinstance(result.stream, (KGroupedStream, *ops_windows.WINDOWED)):
        return result.stream
    raise ValueError(f"a {type(result.stream).__name__} cannot be aggregated")


def _of(kind: type[T], result: _Result) -> T:
    if not isinstance(result.stream, kind):
        raise ValueError(f"cannot be called on a {type(result.stream).__name__}, only on a {kind.__name__}")
    return result.stream
