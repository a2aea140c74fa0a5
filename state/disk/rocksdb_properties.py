"""The properties of a column family that are metrics."""

from __future__ import annotations

import re

PROPERTIES = (
    "num-immutable-mem-table", "cur-size-active-mem-table", "cur-size-all-mem-tables", "size-all-mem-tables",
    "num-entries-active-mem-table", "num-entries-imm-mem-tables", "num-deletes-active-mem-table",
    "num-deletes-imm-mem-tables", "mem-table-flush-pending", "num-running-flushes", "compaction-pending",
    "num-running-compactions", "estimate-pending-compaction-bytes", "total-sst-files-size", "live-sst-files-size",
    "num-live-versions", "block-cache-capacity", "block-cache-usage", "block-cache-pinned-usage", "estimate-num-keys",
    "estimate-table-readers-mem", "background-errors",
    "actual-delayed-write-rate", "is-write-stopped",
)  # fmt: skip
"""Names of the properties in RocksDB, which Kafka Streams uses for its metrics, too."""

DATABASE_STATISTICS = "rocksdb.dbstats"
STALLED = "write-stall-duration-total"
"""The metric of :func:`stalled_ms`, by Kafka Streams' name."""
_STALL = re.compile(r"^Cumulative stall: (\d+):(\d+):(\d+(?:\.\d+)?) H:M:S", re.MULTILINE)


def stalled_ms(statistics: str | None) -> float | None:
    """Returns the ms for which the writes of a database have waited for flushes and compactions since it was opened, by
    its ``DATABASE_STATISTICS``; None if they do not have it."""
    found = _STALL.search(statistics or "")
    if found is None:
        return None
    hours, minutes, seconds = map(float, found.groups())
    return 1000 * ((hours * 60 + minutes) * 60 + seconds)
