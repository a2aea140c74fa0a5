"""Adds ``deduplicate`` to the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.common.errors import TopologyError
from penstock.common.time import Duration, to_ms
from penstock.common.windows import LARGEST_TIMESTAMP
from penstock.state.windowed.deduplication_store import DeduplicationStoreBuilder
from penstock.topology.arity import takes_key
from penstock.topology.dsl.joins import partitioned_by_key
from penstock.topology.dsl.stream_base import StreamHead, checked_option
from penstock.topology.logical.graph import Operation
from penstock.topology.options.deduplicated import Deduplicated
from penstock.topology.options.materialized import StoreType
from penstock.topology.options.options import Joined
from penstock.topology.physical.operators.deduplicate import Deduplicate, DeduplicateById

_PREFIX = "KSTREAM-DEDUPLICATE-"


def deduplicated_stream(
    head: StreamHead,
    within: Duration,
    id_extractor: Callable[..., Any] | None,
    given: Deduplicated[Any, Any, Any] | None,
) -> StreamHead:
    """Returns the stream at ``head`` without duplicates."""
    checked_option(given, Deduplicated, "deduplicate")
    how: Deduplicated[Any, Any, Any] = given or Deduplicated()
    with_key = False if id_extractor is None else takes_key(id_extractor, "deduplicate: id_extractor", "value")
    within_ms, retention_ms = _times(within, how)
    names = head.graph.names
    store_name = how.store_name or names.store(_PREFIX)
    name = names.processor_or(how.name, _PREFIX)
    by = Joined[Any, Any, Any](how.key_serde, how.value_serde, name=how.name or store_name)
    head, _ = partitioned_by_key(head, by, None)
    head.note_user_call(f"deduplicate {name}", "Deduplicated")
    store = DeduplicationStoreBuilder(
        store_name,
        how.key_serde or head.key_serde,
        persistent=how.store_type is StoreType.ROCKS_DB,
        # Nothing is held back: rows are only written once per commit instead of one by one.
        caching=True,
        logging=how.logging,
        topic_config=how.topic_config,
        # A row has the time at which its window begins.
        retention_ms=min(retention_ms + within_ms, LARGEST_TIMESTAMP),
        window_size_ms=within_ms,
        by_id=id_extractor is not None,
        id_serde=how.id_serde,
    )
    operator = Deduplicate(store_name, within_ms, retention_ms)
    if id_extractor is not None:
        operator = DeduplicateById(store_name, within_ms, retention_ms, id_extractor=id_extractor, with_key=with_key)
    elif how.id_serde is not None:
        raise TopologyError(f"deduplicate {name}: an id_serde without an id_extractor: the key alone is compared")
    node = Operation(name, lambda: operator, lambda: (store,))
    node.relaxes_null_keys = True
    head.graph.add(node, head.node)
    return head.moved(node, key_serde=how.key_serde or head.key_serde, repartition_required=False)


def _times(within: Duration, how: Deduplicated[Any, Any, Any]) -> tuple[int, int]:
    within_ms = to_ms(within, "deduplicate: within")
    if within_ms < 1:
        raise TopologyError(f"deduplicate: within must be 1 ms at least, not {within_ms} ms")
    retention_ms = 2 * within_ms if how.retention_ms is None else how.retention_ms
    if retention_ms < within_ms:
        raise TopologyError(
            f"deduplicate: a retention of {retention_ms} ms is shorter than the interval of {within_ms} ms: "
            "records would be forgotten while duplicates of them may still come. Give Deduplicated.with_retention at "
            "least the interval, or leave it out"
        )
    return within_ms, retention_ms
