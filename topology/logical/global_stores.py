"""The logical node of a global store: a topic of which every host keeps all."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from penstock.common.extractors import FailOnInvalidTimestamp
from penstock.state.builders import AnyStoreBuilder
from penstock.topology.logical.graph import LogicalNode
from penstock.topology.options.options import Consumed
from penstock.topology.physical.operators.operator import Operator
from penstock.topology.physical.topology import ProcessorNode, SourceNode, WrittenBy
from penstock.topology.physical.writer import TopologyWriter


class GlobalStoreNode(LogicalNode):
    """``global_table`` and ``add_global_store``: a source and the processor that keeps the store."""

    def __init__(
        self,
        name: str,
        source_name: str,
        topic: str,
        consumed: Consumed[Any, Any],
        operator: Operator,
        store: AnyStoreBuilder,
        call: str,
    ) -> None:
        super().__init__(name)
        self.source_name = source_name
        self.topic = topic
        self.consumed = consumed
        self.operator = operator
        self.store = store
        self.call = call

    @override
    def write(self, writer: TopologyWriter) -> None:
        # As in Kafka Streams no extractor is asked, and reading begins with the first record.
        source = SourceNode(
            self.source_name,
            (self.topic,),
            self.consumed.key_serde,
            self.consumed.value_serde,
            FailOnInvalidTimestamp(),
            written_by=WrittenBy(f"{self.call}({self.topic!r})", "Consumed"),
        )
        writer.add_global_store(source, ProcessorNode(self.name, (self.source_name,), self.operator), self.store)
