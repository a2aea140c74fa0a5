"""Storage of committed rows: RocksDB, or memory."""
