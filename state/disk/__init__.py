"""Where committed rows lie: RocksDB, or memory."""
