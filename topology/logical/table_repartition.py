"""The repartition topic of a grouped table."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from penstock.common.serdes import Serde
from penstock.topology.logical.graph import LogicalNode
from penstock.topology.naming import REPARTITION_SUFFIX, checked_name
from penstock.topology.physical.topology import RepartitionTopic, SinkNode, SourceNode, WrittenBy
from penstock.topology.physical.writer import TopologyWriter


class TableRepartition(LogicalNode):
    """A topic of changes between two sub-topologies, with its sink and its source; named after the source.

    Unlike that of a stream it has no filter (group keys are never null), and no optimisation moves it: the node before
    it takes part in the aggregation.
    """

    reads_a_topic = True

    def __init__(
        self,
        sink_name: str,
        source_name: str,
        prefix: str,
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
        written_by: WrittenBy,
    ) -> None:
        super().__init__(source_name)
        self.sink_name = sink_name
        self.topic = checked_name(prefix + REPARTITION_SUFFIX, "name of a repartition topic")
        self.key_serde = key_serde
        self.value_serde = value_serde
        self.written_by = written_by

    @override
    def write(self, writer: TopologyWriter) -> None:
        topic, serdes, written_by = self.topic, (self.key_serde, self.value_serde), self.written_by
        writer.add_repartition_topic(RepartitionTopic(topic))
        writer.add_sink(
            SinkNode(
                self.sink_name, self.parent_names, topic, *serdes, internal=True, changes=True, written_by=written_by
            )
        )
        writer.add_source(SourceNode(self.name, (topic,), *serdes, internal=True, changes=True, written_by=written_by))
