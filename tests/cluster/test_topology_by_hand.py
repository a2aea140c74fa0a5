"""A word count written node by node, with a wrapper around each processor, on a real Ray and a real Kafka."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.api.kafka_streams import KafkaStreams
from penstock.cluster.client.control import end_actors
from penstock.cluster.ray_cluster.named_actors import find_coordinator
from penstock.common.topics import NewTopic
from tests.cluster.conftest import LONG, STRING, WordCount
from tests.waiting import PATIENCE_S, eventually, once_ready


class Split(ps.Processor[Any, str, str, str]):
    """Forwards the words of each line."""

    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        self.context = context

    def process(self, record: ps.Record[Any, str]) -> None:
        for word in record.value.split():
            self.context.forward(ps.Record(word, word, record.timestamp))


class Count(ps.Processor[str, str, str, int]):
    """Counts in a store that it brings along."""

    @classmethod
    def stores(cls) -> list[ps.StoreBuilder[str, int]]:
        return [ps.Stores.key_value_store_builder(ps.Stores.persistent_key_value_store("counts"), STRING, LONG)]

    def init(self, context: ps.ProcessorContext[str, int]) -> None:
        self.context = context
        self.counts: ps.KeyValueStore[str, int] = context.get_state_store("counts")

    def process(self, record: ps.Record[str, str]) -> None:
        count = (self.counts.get(record.key) or 0) + 1
        self.counts.put(record.key, count)
        self.context.forward(record.with_value(count))


class Tracing(ps.ProcessorWrapper):
    """Marks by a header what goes through a processor."""

    def wrap_processor_supplier(self, name: str, supplier: Callable[[], Any]) -> Callable[[], Any]:
        def make() -> Any:
            inner = supplier()
            process = inner.process
            inner.process = lambda record: process(record.with_headers([*record.headers, ("by", name.encode())]))
            return inner

        return make


class ByHand(WordCount):
    """The word count of the other tests, by hand."""

    @staticmethod
    def is_placed(app: KafkaStreams) -> bool:
        return sorted(map(str, app.status().placement)) == ["0_0", "0_1", "1_0", "1_1"]

    def app(self, **entries: Any) -> KafkaStreams:
        words = f"{self.application_id}-words"
        if words not in self.admin.topics():
            self.admin.create_topics([NewTopic(words, 2)])
        config = {
            "application.id": self.application_id,
            "bootstrap.servers": self.broker,
            "state.dir": self.state_dir,
            "commit.interval.ms": 200,
            "application.server": "",
            "default.key.serde": STRING,
            "default.value.serde": STRING,
            "processor.wrapper.class": Tracing,
        }
        topology = ps.Topology(config).add_source("Lines", self.lines).add_processor("Split", Split, "Lines")
        topology.add_sink("To", words, "Split").add_source("From", words).add_processor("Count", Count, "From")
        topology.add_sink("Counts", self.counts_topic, "Count", value_serde=LONG)
        return KafkaStreams(topology, config)


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.long
def test_it_counts_and_continues_after_a_restart(broker: str, topic_name: Callable[[str], str], tmp_path: Path) -> None:
    it = ByHand(broker, topic_name("hand"), tmp_path)
    try:
        for _ in range(2):
            it.send(["the quick brown fox", "jumps over the lazy dog", "the end"] * 20)
            app = it.app()
            app.start()
            app.wait_until_running(PATIENCE_S)
            eventually(it.complete, "all counts written")
            assert once_ready(partial(app.store("counts").get, "the")) == it.sent["the"]
            eventually(partial(it.is_placed, app), "all tasks have an actor")
            assert app.close()
    finally:
        end_actors(it.application_id, find_coordinator(it.application_id))
