"""Fills stores from topics: those of active tasks and of standbys, and global stores.

``replays.py`` reads and writes a slice at a time, for all of them.
"""
