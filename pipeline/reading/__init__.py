"""Sources of history: the records that a backfill reads."""
