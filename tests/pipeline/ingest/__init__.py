"""``penstock ingest``, on the fake broker without Spark, and with Spark on a real one."""
