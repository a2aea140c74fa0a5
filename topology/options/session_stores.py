"""The session store of an aggregate, from the user's options and the needs of its sessions."""

from __future__ import annotations

from typing import Any

from penstock.common.errors import TopologyError
from penstock.common.serdes import Serde
from penstock.state.stores import SessionBytesStoreSupplier, WindowBytesStoreSupplier
from penstock.state.windowed.session_store import SessionStoreBuilder
from penstock.topology.options.materialized import Materialized, StoreType
from penstock.topology.options.session_windows import SessionWindows


def session_store(
    how: Materialized[Any, Any],
    windows: SessionWindows,
    on_close: bool,
    name: str,
    key_serde: Serde[Any] | None,
    value_serde: Serde[Any] | None,
) -> SessionStoreBuilder[Any, Any]:
    """Returns the builder of store ``name``; a serde that ``how`` does not set is the one given.

    Raises TopologyError for a retention shorter than sessions take records, and for a supplier of other stores.
    """
    how.refuse_ttl(f"a table of sessions ({name!r})", "sessions have a retention: Materialized.with_retention")
    supplier = how.supplier
    if supplier is not None and not isinstance(supplier, SessionBytesStoreSupplier):
        kept = "window" if isinstance(supplier, WindowBytesStoreSupplier) else "versioned"
        raise TopologyError(f"Materialized: a table of sessions needs a session store, not a {kept} store ({name!r})")
    needed = windows.inactivity_gap_ms + windows.grace_period_ms
    retention_ms = needed if how.retention_ms is None else how.retention_ms
    if retention_ms < needed:
        raise TopologyError(
            f"store {name}: a retention of {retention_ms} ms is too short: these sessions need {needed} ms, their "
            "inactivity gap and their grace period. Give Materialized.with_retention at least that, or leave it out"
        )
    return SessionStoreBuilder(
        name,
        how.key_serde or key_serde,
        how.value_serde or value_serde,
        persistent=how.store_type is StoreType.ROCKS_DB,
        # As in Kafka Streams: sessions that are emitted on close are not cached.
        caching=how.caching and not on_close,
        logging=how.logging,
        topic_config=how.topic_config,
        retention_ms=retention_ms if supplier is None else supplier.retention_ms,
        by_time=on_close,
        time_ordered=on_close,
        of_dsl=True,
    )
