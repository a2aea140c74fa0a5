"""Buffers: updates that wait, in the order of their times."""
