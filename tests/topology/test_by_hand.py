"""A topology written node by node: the nodes that may be added to each other, and the errors of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ray import cloudpickle

import penstock as ps
from penstock.topology.physical.topology import SinkNode, SourceNode
from penstock.topology.physical.topology import Topology as TopologyValue

TEXT = ps.Serdes.string()
Program = Callable[[ps.Topology], object]


class Pass(ps.Processor[Any, Any, Any, Any]):
    """Forwards what it is given."""

    def init(self, context: ps.ProcessorContext[Any, Any]) -> None:
        """Keep the context."""
        self.context = context

    def process(self, record: ps.Record[Any, Any]) -> None:
        """Forward."""
        self.context.forward(record)


class PassValues(ps.FixedKeyProcessor[Any, Any, Any]):
    """Forwards nothing."""

    def process(self, record: ps.FixedKeyRecord[Any, Any]) -> None:
        """Drop."""


def store(name: str = "s") -> ps.StoreBuilder[str, str]:
    return ps.Stores.key_value_store_builder(ps.Stores.in_memory_key_value_store(name), TEXT, TEXT)


def two() -> ps.Topology:
    return ps.Topology().add_source("A", "in").add_processor("B", Pass, "A")


def refused() -> Iterator[tuple[Program, str]]:
    anything: Any = Pass()
    yield lambda t: t.add_source("A", "in2"), "two operators are named 'A'"
    yield lambda t: t.add_processor("A", Pass, "B"), "two operators are named 'A'"
    yield lambda t: t.add_sink("B", "out", "A"), "two operators are named 'B'"
    yield lambda t: t.add_source("C", "in"), "topic 'in' is already read by source 'A'"
    yield lambda t: t.add_source("C", "x", "x"), "source 'C' names a topic twice: x, x"
    yield lambda t: t.add_source("C"), r"source 'C' needs at least one topic: add_source\('C', topic\)"
    yield lambda t: t.add_source("", "x"), "a node's name must be a string that is not empty, not ''"
    yield lambda t: t.add_source("C", ""), "illegal topic ''"
    yield lambda t: t.add_source("C", "x", key_serde=anything), "key_serde must be a Serde"
    yield (
        lambda t: t.add_source("C", "x", offset_reset=anything),
        "offset_reset must be 'earliest', 'latest', 'none' or Auto",
    )
    yield lambda t: t.add_source("C", "x", timestamp_extractor=anything), "timestamp_extractor must be callable"
    yield lambda t: t.add_processor("C", Pass, "D"), "parent 'D' of 'C' does not exist: add a node after its parents"
    yield lambda t: t.add_processor("C", Pass, "C"), "'C' cannot be a parent of itself: no record may go in a circle"
    yield lambda t: t.add_processor("C", Pass), "'C' needs at least one parent"
    yield lambda t: t.add_processor("C", Pass, "A", "A"), "'C' names a parent twice: A, A"
    yield lambda t: t.add_processor("C", anything, "A"), "add_processor: give a supplier that makes processors"
    yield lambda t: t.add_processor("C", lambda: anything, "A"), "returned the same processor twice"
    fixed: Any = PassValues
    yield lambda t: t.add_processor("C", fixed, "A"), "the supplier must make a Processor, not .*PassValues"
    yield lambda t: t.add_sink("C", "out"), "'C' needs at least one parent"
    yield lambda t: t.add_sink("C", "a b", "A"), "illegal topic 'a b'"
    yield lambda t: t.add_sink("C", anything, "A"), "add_sink: a topic that is no string must be callable"
    yield lambda t: t.add_sink("C", "out", "B").add_sink("D", "out", "C"), "sink 'C' cannot be the parent of 'D'"
    yield lambda t: t.add_sink("C", "out", "B").add_processor("D", Pass, "C"), "sink 'C' cannot be the parent of 'D'"
    yield lambda t: t.add_state_store(anything), "add_state_store needs a StoreBuilder"
    yield lambda t: t.add_state_store(store(), "X"), "processor 'X', which is to use store 's', does not exist"
    yield lambda t: t.add_state_store(store(), "A"), "'A' cannot use store 's': only a processor of your own"
    yield lambda t: t.add_state_store(store()).add_state_store(store("s")), "two different stores are named 's'"
    yield lambda t: t.connect_processor_and_state_stores("B", "s"), "B uses store 's', which does not exist"
    yield lambda t: t.connect_processor_and_state_stores("B"), "name at least one store"
    yield lambda t: t.add_global_store(store(), "G", "all", "G", Pass), "both named 'G'"
    yield lambda t: t.add_global_store(store(), "G", "in", "P", Pass), "topic 'in' is already read"
    yield lambda t: t.add_global_store(store(), "A", "all", "P", Pass), "two operators are named 'A'"
    yield (
        lambda t: t.add_global_store(store(), "G", "all", "P", Pass).connect_processor_and_state_stores("B", "s"),
        "B names global store 's': every processor may read every global store",
    )
    yield (
        lambda t: t.add_global_store(store(), "G", "all", "P", Pass).add_processor("C", Pass, "P"),
        "'P' cannot be the parent of 'C': nothing is downstream of a global store",
    )
    yield lambda t: t.add_read_only_state_store(store(), "G", "all", "G", Pass), "both named 'G'"
    yield lambda t: t.add_read_only_state_store(anything, "G", "all", "P", Pass), "needs a StoreBuilder"


@pytest.mark.parametrize(("change", "message"), list(refused()))
def test_an_impossible_addition_is_refused_at_once(change: Program, message: str) -> None:
    with pytest.raises(ps.TopologyError, match=message):
        change(two())


def test_a_source_that_is_refused_takes_no_topic() -> None:
    topology = two()
    with pytest.raises(ps.TopologyError):
        topology.add_source("C", "other", "in")
    topology.add_source("C", "other")
    assert [source.topics for sub in topology.subtopologies for source in sub.sources] == [("in",), ("other",)]


def test_an_empty_topology_is_described_but_not_run() -> None:
    assert ps.Topology().describe() == "Topologies:\n "
    with pytest.raises(ps.TopologyError, match="the topology is empty: it must read at least one topic"):
        ps.TopologyTestDriver(ps.Topology())
    with pytest.raises(ps.TopologyError, match="the topology is empty"):
        ps.KafkaStreams(ps.Topology(), {"application.id": "app"})


def test_each_call_changes_the_topology_and_returns_it() -> None:
    topology = ps.Topology()
    assert topology.add_source("A", "in") is topology
    assert topology.add_processor("B", Pass, "A") is topology
    assert topology.add_state_store(store(), "B") is topology
    assert topology.add_state_store(store("t")).connect_processor_and_state_stores("B", "t") is topology
    assert topology.add_sink("C", "out", "B") is topology
    (sub,) = topology.subtopologies
    assert [node.name for node in sub.nodes] == ["A", "B", "C"]
    assert [each.name for each in sub.stores] == ["s", "t"]


def test_nodes_have_what_they_were_given() -> None:
    def extract(record: ps.Record[Any, Any], sent: int, partition_time: int, metadata: ps.RecordMetadata) -> int:
        return 7

    def choose(topic: str, key: Any, value: Any, partitions: int) -> int | None:
        return 0

    long = ps.Serdes.long()
    topology = ps.Topology().add_source(
        "A", "in", "in2", key_serde=TEXT, value_serde=long, timestamp_extractor=extract, offset_reset="latest"
    )
    topology.add_sink("B", "out", "A", key_serde=long, value_serde=TEXT, partitioner=choose)
    source, sink = topology.subtopologies[0].nodes
    assert isinstance(source, SourceNode)
    assert isinstance(sink, SinkNode)
    assert (source.topics, source.key_serde, source.value_serde) == (("in", "in2"), TEXT, long)
    assert (source.timestamp_extractor, source.offset_reset) == (extract, "latest")
    assert (sink.topic, sink.key_serde, sink.value_serde, sink.partitioner) == ("out", long, TEXT, choose)


def test_a_store_that_no_processor_uses_is_not_built() -> None:
    assert two().add_state_store(store()).store_builders == {}


def test_a_missing_serde_is_asked_for_where_it_is_given() -> None:
    with pytest.raises(ps.ConfigError, match=r"add_source\('A'\) \(A\) has no key serde.*pass key_serde=\.\.\. and"):
        ps.TopologyTestDriver(two())


def test_a_value_that_a_sink_cannot_serialise_is_reported_with_where_the_serde_is_given() -> None:
    topology = two().add_sink("C", "out", "B", value_serde=ps.Serdes.long())
    with ps.TopologyTestDriver(topology, {"default.key.serde": TEXT, "default.value.serde": TEXT}) as driver:
        records = driver.create_input_topic("in", TEXT, TEXT)
        with pytest.raises(ps.ProductionError, match=r"pass the right serde by key_serde=\.\.\. and value_serde="):
            records.pipe_input("k", "v")


def test_other_processes_get_its_value() -> None:
    topology = two().add_state_store(store(), "B").add_sink("C", "out", "B")
    pickler: Any = cloudpickle  # Ray's has no types
    shipped = pickler.loads(pickler.dumps(topology))
    assert type(shipped) is TopologyValue
    assert shipped.describe() == topology.describe()
    assert shipped.store_builders.keys() == {"s"}


def test_the_builders_topology_takes_more_and_the_next_one_is_without_it() -> None:
    builder = ps.StreamsBuilder()
    builder.stream("in").map_values(str.upper, named="upper").to("out", ps.Produced.as_("sink"))
    topology = builder.build()
    topology.add_processor("mine", Pass, "upper").add_sink("more", "more", "mine")
    assert "mine" in topology.describe()
    assert "mine" not in builder.build().describe()


def test_a_table_takes_no_processor_by_hand() -> None:
    builder = ps.StreamsBuilder()
    builder.table("in", ps.Consumed.as_("table")).filter(bool, named="kept").to_stream(named="records")
    topology = builder.build()
    topology.add_processor("B", Pass, "records")
    for parent in ("table", "kept"):
        with pytest.raises(ps.TopologyError, match=f"'{parent}' cannot be the parent of 'C': it forwards updates of a"):
            topology.add_processor("C", Pass, parent)
