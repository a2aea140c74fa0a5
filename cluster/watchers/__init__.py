"""Watches of actors, brokers, nodes, topics and tasks. What they find goes to the state machine or to the log.

``silence.py``, ``overdue.py`` and ``leases.py`` judge what the watch of actors sees.
"""
