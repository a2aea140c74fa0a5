"""Benchmarks of the data pipeline on Spark: ``make bench-pipeline``."""
