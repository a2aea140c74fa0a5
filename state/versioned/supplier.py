"""The supplier by which a program names a versioned store."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.common.time import Duration, to_ms

_SECOND = 1000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE


@dataclass(frozen=True)
class VersionedBytesStoreSupplier:
    """The name of a versioned store, its place (RocksDB or memory), the time for which it keeps history, and the length
    of its segments."""

    name: str
    persistent: bool
    history_retention_ms: int
    segment_interval_ms: int


def versioned_supplier(
    name: str, persistent: bool, history_retention: Duration, segment_interval: Duration | None
) -> VersionedBytesStoreSupplier:
    """Returns the supplier. Raises ValueError for a negative history or an interval below 1 ms."""
    history_ms = to_ms(history_retention, "history_retention")
    if segment_interval is None:
        return VersionedBytesStoreSupplier(name, persistent, history_ms, _default_interval_ms(history_ms))
    interval_ms = to_ms(segment_interval, "segment_interval")
    if not interval_ms:
        raise ValueError(f"store {name}: segment_interval must be at least 1 ms")
    return VersionedBytesStoreSupplier(name, persistent, history_ms, interval_ms)


def _default_interval_ms(history_ms: int) -> int:
    if history_ms <= _MINUTE:
        return max(history_ms // 3, 2 * _SECOND)
    if history_ms <= 5 * _MINUTE:
        return max(history_ms // 5, 20 * _SECOND)
    if history_ms <= _HOUR:
        return max(history_ms // 12, _MINUTE)
    return max(history_ms // 24, 5 * _MINUTE)
