"""Fills stores from topics: of active tasks, of standbys, and global stores.

``replays.py`` reads and writes a slice at a time, for all of them.
"""
