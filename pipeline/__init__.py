"""The data pipeline, on Spark: topics to files (archive), files to topics (ingest), a topology over history, whose
state the live application takes over (backfill), and the comparison of the two (audit)."""
