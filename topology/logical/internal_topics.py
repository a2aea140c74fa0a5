"""Internal topics that an operator writes and reads by itself, without the filter of a repartition."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from penstock.common.serdes import Serde
from penstock.topology.logical.graph import LogicalNode
from penstock.topology.physical.topology import RepartitionTopic, SinkNode, SourceNode, WrittenBy
from penstock.topology.physical.writer import TopologyWriter
from penstock.topology.processor_api.processor import StreamPartitioner


class InternalSink(LogicalNode):
    """The sink that writes internal topic ``topic``, which it brings along; ``written_by`` is the user's call."""

    def __init__(
        self,
        name: str,
        topic: str,
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
        partitioner: StreamPartitioner | None,
        written_by: WrittenBy,
    ) -> None:
        super().__init__(name)
        self.topic = topic
        self.key_serde = key_serde
        self.value_serde = value_serde
        self.partitioner = partitioner
        self.written_by = written_by

    @override
    def write(self, writer: TopologyWriter) -> None:
        writer.add_repartition_topic(RepartitionTopic(self.topic))
        serdes = self.key_serde, self.value_serde
        writer.add_sink(
            SinkNode(self.name, self.parent_names, self.topic, *serdes, self.partitioner, True, self.written_by)
        )


class InternalSource(LogicalNode):
    """The source that reads internal topic ``topic``."""

    reads_a_topic = True

    def __init__(
        self,
        name: str,
        topic: str,
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
        written_by: WrittenBy,
    ) -> None:
        super().__init__(name)
        self.topic = topic
        self.key_serde = key_serde
        self.value_serde = value_serde
        self.written_by = written_by

    @override
    def write(self, writer: TopologyWriter) -> None:
        serdes = self.key_serde, self.value_serde
        writer.add_source(SourceNode(self.name, (self.topic,), *serdes, internal=True, written_by=self.written_by))
