"""The window store of an aggregate, from the user's options and the needs of its windows."""

from __future__ import annotations

from typing import Any

from penstock.common.errors import TopologyError
from penstock.common.serdes import Serde
from penstock.state.stores import SessionBytesStoreSupplier, WindowBytesStoreSupplier
from penstock.state.windowed.window_store import TimestampedWindowStoreBuilder
from penstock.topology.options.materialized import Materialized, StoreType
from penstock.topology.options.windows import SlidingWindows, TimeWindows, UnlimitedWindows


def window_store(
    how: Materialized[Any, Any],
    windows: TimeWindows | UnlimitedWindows | SlidingWindows,
    on_close: bool,
    name: str,
    key_serde: Serde[Any] | None,
    value_serde: Serde[Any] | None,
) -> TimestampedWindowStoreBuilder[Any, Any]:
    """Returns the builder of store ``name``; a serde that ``how`` does not set is the one given.

    Raises TopologyError for a retention shorter than the windows take records, and for a supplier of other stores.
    """
    how.refuse_ttl(f"a table of windows ({name!r})", "windows have a retention: Materialized.with_retention")
    retention_ms, size_ms = _retention_ms(how, windows, name), _size_ms(windows)
    supplier = how.supplier
    if supplier is not None and not isinstance(supplier, WindowBytesStoreSupplier):
        kept = "session" if isinstance(supplier, SessionBytesStoreSupplier) else "versioned"
        raise TopologyError(f"Materialized: a table of windows needs a window store, not a {kept} store ({name!r})")
    if supplier is not None:
        retention_ms = supplier.retention_ms
        if supplier.window_size_ms != size_ms and not isinstance(windows, UnlimitedWindows):
            its = supplier.window_size_ms
            raise TopologyError(
                f"store {name}: its supplier has windows of {its} ms, the aggregate of {size_ms} ms. "
                "A row holds the start alone, so all ends would be wrong: give the supplier the size of the windows"
            )
    persistent = how.store_type is StoreType.ROCKS_DB
    return TimestampedWindowStoreBuilder(
        name,
        how.key_serde or key_serde,
        how.value_serde or value_serde,
        persistent=persistent,
        # As in Kafka Streams, whose sliding windows are not cached if they are emitted on close.
        caching=how.caching and not (on_close and isinstance(windows, SlidingWindows)),
        logging=how.logging,
        topic_config=how.topic_config,
        retention_ms=retention_ms,
        window_size_ms=size_ms,
        by_time=on_close,
        time_ordered=on_close and persistent and supplier is None,
        of_dsl=True,
    )


def _size_ms(windows: TimeWindows | UnlimitedWindows | SlidingWindows) -> int:
    return windows.time_difference_ms if isinstance(windows, SlidingWindows) else windows.size_ms


def _retention_ms(
    how: Materialized[Any, Any], windows: TimeWindows | UnlimitedWindows | SlidingWindows, name: str
) -> int:
    """Returns the time (ms) for which a window is kept: at least as long as it takes records, and a sliding window as
    long as the next ones are made from it."""
    spans = "twice their time difference" if isinstance(windows, SlidingWindows) else "their size"
    needed = _size_ms(windows) * (2 if isinstance(windows, SlidingWindows) else 1) + windows.grace_period_ms
    if how.retention_ms is None:
        return needed
    if how.retention_ms < needed:
        raise TopologyError(
            f"store {name}: a retention of {how.retention_ms} ms is too short: these windows need {needed} ms, {spans} "
            "and their grace period. Give Materialized.with_retention at least that, or leave it out"
        )
    return how.retention_ms
