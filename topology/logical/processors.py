"""The logical nodes of a user's processor, and of the stores that its supplier brings along."""

from __future__ import annotations

from typing_extensions import override

from penstock.topology.logical.graph import Operation, StateStoreNode
from penstock.topology.physical.topology import ProcessorNode
from penstock.topology.physical.writer import TopologyWriter


class ProcessorOperation(Operation):
    """``process`` and ``process_values``: its stores are those that the supplier brings along, as others may, too."""

    @override
    def write(self, writer: TopologyWriter) -> None:
        for store in self.stores():
            writer.add_connected_store(store)
        writer.add_processor(ProcessorNode(self.name, self.parent_names, self.operator()))


class ConnectedStoreNode(StateStoreNode):
    """A store that a supplier brings along, as others may, too."""

    @override
    def write(self, writer: TopologyWriter) -> None:
        writer.add_connected_store(self.builder)
