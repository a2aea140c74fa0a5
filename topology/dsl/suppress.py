"""Adds ``KTable.suppress`` to the graph."""

from __future__ import annotations

from typing import Any

from penstock.common.errors import TopologyError
from penstock.common.shown import shown_with_type
from penstock.state.buffers.change_buffer import ChangeBufferBuilder
from penstock.topology.dsl.stream_base import StreamHead
from penstock.topology.logical.graph import Operation
from penstock.topology.logical.suppressed_table import SuppressedTable, window_grace_of
from penstock.topology.logical.tables import TableDefinition
from penstock.topology.options.suppressed import EagerBufferConfig, Suppressed
from penstock.topology.physical.operators.suppress import Suppress

_PREFIX = "KTABLE-SUPPRESS-"


def suppressed_table(
    head: StreamHead, parent: TableDefinition, how: Suppressed[Any]
) -> tuple[StreamHead, TableDefinition]:
    """Adds the table that forwards the updates of ``parent`` as ``how`` says; returns its head, and the table."""
    if not isinstance(how, Suppressed):
        raise TopologyError(
            f"suppress needs a Suppressed, not {shown_with_type(how)}: pass Suppressed.until_time_limit(...) or "
            "Suppressed.until_window_closes(...)"
        )
    if parent.passes_for_versioned:
        raise TopologyError(
            "suppress: a versioned table cannot be suppressed; nor, as in Kafka Streams, can a windowed cogroup whose "
            "streams all come from versioned tables. Use a table with another store, or send one of the streams "
            "through a topic"
        )
    names, config = head.graph.names, how.buffer_config
    # Unlike elsewhere, a given name uses up no numbers.
    name = names.processor(_PREFIX) if how.name is None else how.name
    wait_ms = window_grace_of(head.node) if how.wait_ms is None else how.wait_ms
    buffer_name = names.store(_PREFIX) if how.name is None else f"{how.name}-store"
    operator = Suppress(
        wait_ms,
        until_window_closes=how.wait_ms is None,
        max_records=config.record_limit,
        max_bytes=config.byte_limit,
        emit_early=isinstance(config, EagerBufferConfig),
    )
    buffer = ChangeBufferBuilder(
        buffer_name, head.key_serde, head.value_serde, logging=config.logging, topic_config=config.topic_config
    )
    table = SuppressedTable(operator, buffer, parent)
    node = Operation(name, table.operator, table.stores)
    head.graph.add(node, head.node)
    return head.moved(node), table
