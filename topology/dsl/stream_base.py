"""The head of each object of the DSL: the node of the graph where it ends, its serdes, the sources it comes from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from penstock.common.errors import TopologyError
from penstock.common.serdes import Serde
from penstock.common.shown import shown_with_type
from penstock.state.builders import StoreBuilder
from penstock.topology.logical.graph import LogicalGraph, LogicalNode, Operation, Repartition
from penstock.topology.naming import checked_name
from penstock.topology.options.options import Named
from penstock.topology.physical.operators.operator import Operator
from penstock.topology.physical.topology import WrittenBy

NameLike = Named | str
"""An operator's name, plain or as :class:`Named`."""


@dataclass(frozen=True)
class StreamHead:
    """The node of the graph at which a stream or table ends, where its next operator is added.

    ``sources`` are the source nodes whose partitions it shares. ``repartition_required``: its keys may have changed
    since it was last partitioned by them.
    """

    graph: LogicalGraph
    node: LogicalNode
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    sources: frozenset[str]
    repartition_required: bool = False

    def name(self, named: NameLike | None, prefix: str) -> str:
        """Returns the next operator's name: the given one or the next number's."""
        return self.graph.names.processor_or(given_name(named), prefix)

    def then(self, name: str, operator: Operator) -> StreamHead:
        """Add a stateless operator; returns the head below it. A changed key or value has no known serde."""
        node = Operation(name, lambda: operator)
        node.key_changing = not operator.keeps_key
        node.value_changing = not operator.keeps_value
        self.graph.add(node, self.node)
        return self.moved(
            node,
            key_serde=self.key_serde if operator.keeps_key else None,
            value_serde=self.value_serde if operator.keeps_value else None,
            repartition_required=self.repartition_required or not operator.keeps_key,
        )

    def moved(self, node: LogicalNode, **changes: Any) -> StreamHead:
        """Returns a copy of this head that is at ``node``, with ``changes``."""
        return replace(self, node=node, **changes)

    def note_user_call(self, call: str, option: str) -> None:
        """If this head is at a repartition topic, note the call that needs it, unless one is known already."""
        if isinstance(self.node, Repartition) and self.node.written_by is None:
            self.node.written_by = WrittenBy(call, option)

    def below(self, node: Repartition) -> StreamHead:
        """Returns the head at the repartition ``node``, with its serdes."""
        return StreamHead(self.graph, node, node.key_serde, node.value_serde, frozenset((node.name,)))


def given_name(named: NameLike | None) -> str | None:
    """Returns the name that the user gave, checked, or None."""
    if named is None:
        return None
    return named.name if isinstance(named, Named) else checked_name(named)


def checked_option(given: object, kind: type[Any], call: str) -> None:
    """Raises TopologyError unless ``given`` is None or a ``kind``: a serde or a name alone is easily taken for one."""
    if given is None or isinstance(given, kind):
        return
    made = f"as_({given!r})" if isinstance(given, str) else "with_(...)"
    raise TopologyError(f"{call} needs a {kind.__name__}, not {shown_with_type(given)}: pass {kind.__name__}.{made}")


def checked_store_builder(given: object, call: str) -> None:
    """Raises TopologyError unless ``given`` is a StoreBuilder."""
    if not isinstance(given, StoreBuilder):
        raise TopologyError(f"{call} needs a StoreBuilder, such as Stores.key_value_store_builder(...), not {given!r}")
