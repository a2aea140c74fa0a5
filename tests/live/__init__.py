"""Parity cases on four partitions, through a real broker and Ray, and half of them by Spark; see docs/PARITY.md."""
