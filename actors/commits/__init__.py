"""Commits of an actor, at least once and exactly once, and their way to the coordinator.

``committing.py`` has the steps, ``guarantee.py`` what differs between the two guarantees.
"""
