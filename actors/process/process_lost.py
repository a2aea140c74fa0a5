"""The time after which a silent process of an actor counts as lost."""

from penstock.kafka.settings import SESSION_TIMEOUT_MS

PROCESS_LOST_S = SESSION_TIMEOUT_MS / 1000
"""Seconds without an answer or a heartbeat after which a process counts as lost: it is ended, or its actor replaced."""
