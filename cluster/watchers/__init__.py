"""Objects that look again and again, and tell the state machine or the log: at actors, brokers, nodes, topics, tasks.

``silence.py``, ``overdue.py`` and ``leases.py`` judge what the watch of actors sees.
"""
