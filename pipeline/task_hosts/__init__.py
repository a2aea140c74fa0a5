"""Spark executors as hosts of tasks: records in, Arrow batches out.

``task_host.py`` runs the tasks of one sub-topology, ``pass_host.py`` those of a pass over one that is part of a cycle,
``cycle_host.py`` all tasks of a cycle that has no passes.
"""
