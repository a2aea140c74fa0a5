"""Checkpoints of an actor's tasks in object storage: taken beside records, and fetched before a restore.

``taking.py`` and ``fetching.py`` run in the stream loop; everything that waits for the storage runs in other threads.
"""
