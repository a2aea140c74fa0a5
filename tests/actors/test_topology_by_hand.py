"""A topology that was built by hand, and shipped, in the live loop: stores, clocks, a restart on another node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ray import cloudpickle

import penstock as ps
from penstock.common.topics import NewTopic
from tests.actors.rig import STRING, Rig, settle


def store(name: str) -> ps.StoreBuilder[str, str]:
    return ps.Stores.key_value_store_builder(ps.Stores.persistent_key_value_store(name), STRING, STRING)


class Count(ps.Processor[str, str, str, str]):
    """Counts in ``counts``, and forwards all of it by both clocks."""

    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        """Open the store, set the clocks."""
        self.context = context
        self.counts: ps.KeyValueStore[str, str] = context.get_state_store("counts")
        context.schedule(100, ps.PunctuationType.STREAM_TIME, lambda now: self.tell("s", now), start_time=100)
        context.schedule(5_000, ps.PunctuationType.WALL_CLOCK_TIME, lambda now: self.tell("w", now))

    def process(self, record: ps.Record[str, str]) -> None:
        """Count."""
        self.counts.put(record.key, (self.counts.get(record.key) or "") + "|")

    def tell(self, clock: str, now_ms: int) -> None:
        """Forward what there is."""
        for key, count in self.counts.all():
            self.context.forward(ps.Record(f"{clock} {key}", count, now_ms))


class Look(ps.Processor[str, str, str, str]):
    """Forwards what the count and the read-only store have."""

    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        """Open the stores."""
        self.context = context
        self.counts: ps.KeyValueStore[str, str] = context.get_state_store("counts")
        self.names: ps.KeyValueStore[str, str] = context.get_state_store("names")

    def process(self, record: ps.Record[str, str]) -> None:
        """Look."""
        found = f"{self.names.get(record.key)}: {self.counts.get(record.key)}"
        self.context.forward(record.with_value(found))


class Keep(ps.Processor[str, str, None, None]):
    """Keeps ``names``."""

    def init(self, context: ps.ProcessorContext[None, None]) -> None:
        """Open the store."""
        self.names: ps.KeyValueStore[str, str] = context.get_state_store("names")

    def process(self, record: ps.Record[str, str]) -> None:
        """Keep."""
        self.names.put(record.key, record.value)


def topology() -> ps.Topology:
    serdes: dict[str, Any] = {"key_serde": STRING, "value_serde": STRING}
    made = ps.Topology().add_source("In", "in", **serdes).add_processor("Count", Count, "In")
    made.add_state_store(store("counts"), "Count")
    made.add_read_only_state_store(store("names"), "Names", "names", "Keep", Keep, **serdes)
    made.add_processor("Look", Look, "In").connect_processor_and_state_stores("Look", "counts", "names")
    made.add_sink("Out", "out", "Look", "Count", **serdes)
    pickler: Any = cloudpickle  # Ray's has no types
    shipped: ps.Topology = pickler.loads(pickler.dumps(made))
    return shipped


def reported(rig: Rig, begin: int = 0) -> list[tuple[str, str]]:
    return [((r.key or b"").decode(), (r.value or b"").decode()) for r in rig.broker.records("out")[begin:]]


def test_shared_and_read_only_stores_continue_after_a_restart_with_nothing_on_disk(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "first", topology())
    rig.clients.admin().create_topics([NewTopic("names", 1)])
    rig.write("names", ("a", "Ada", 1))
    loop = rig.running()
    rig.write("in", ("a", "", 2), ("a", "", 3))
    settle(loop)
    assert reported(rig) == [("a", "Ada: |"), ("a", "Ada: ||")]
    rig.commit(loop)
    rig.stop(loop)
    assert rig.committed(topic="names") == 1
    assert len(rig.broker.records("app-counts-changelog")) == 2
    assert "app-names-changelog" not in rig.broker.topics()

    other = Rig(tmp_path / "second", topology())  # another node: everything is restored
    other.broker, other.clients, other.coordinator = rig.broker, rig.clients, rig.coordinator
    loop = other.running()
    other.write("in", ("a", "", 4))
    settle(loop)
    assert reported(other, 2) == [("a", "Ada: |||")]
    other.stop(loop)


def test_both_clocks_call_its_processors(tmp_path: Path) -> None:
    rig = Rig(tmp_path, topology())
    rig.clients.admin().create_topics([NewTopic("names", 1)])
    loop = rig.running()
    rig.write("in", ("a", "", 99), ("a", "", 100))
    settle(loop)
    assert reported(rig) == [("a", "None: |"), ("a", "None: ||"), ("s a", "||")]
    rig.clock.now_ms += 4_999
    rig.stop(loop)
    assert len(reported(rig)) == 3
    loop = rig.running(epoch=2)
    rig.clock.now_ms += 5_000
    settle(loop)
    assert reported(rig, 3) == [("w a", "||")]
    rig.stop(loop)
