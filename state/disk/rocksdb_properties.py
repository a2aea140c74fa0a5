"""The properties of a column family that are metrics."""

from __future__ import annotations

PROPERTIES = (
    "num-immutable-mem-table", "cur-size-active-mem-table", "cur-size-all-mem-tables", "size-all-mem-tables",
    "num-entries-active-mem-table", "num-entries-imm-mem-tables", "num-deletes-active-mem-table",
    "num-deletes-imm-mem-tables", "mem-table-flush-pending", "num-running-flushes", "compaction-pending",
    "num-running-compactions", "estimate-pending-compaction-bytes", "total-sst-files-size", "live-sst-files-size",
    "num-live-versions", "block-cache-capacity", "block-cache-usage", "block-cache-pinned-usage", "estimate-num-keys",
    "estimate-table-readers-mem", "background-errors",
)  # fmt: skip
"""Names of the properties in RocksDB, which Kafka Streams uses for its metrics, too."""
