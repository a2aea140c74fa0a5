"""Each row of the fault matrix alone: one fault, at a fixed moment, to a real Kafka and a real Ray.

``python -m tests.faults --help`` runs them and prints a table. The expected results are known beforehand: of every
key each count from 1 on, written once, in order. docs/FAULT_RUNS.md lists the rows and their results.
"""
