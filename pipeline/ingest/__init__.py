"""``penstock ingest``: the rows of files become records of a topic, each exactly once."""
