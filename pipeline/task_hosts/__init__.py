"""Spark executors as hosts of tasks: Arrow batches in, Arrow batches out.

``task_host.py`` runs the tasks of one sub-topology, ``cycle_host.py`` those of sub-topologies that write to each other.
"""
