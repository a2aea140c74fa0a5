"""The times that uploads, downloads and deletions keep, so that no deletion meets an upload or a download."""

from __future__ import annotations

LONGEST_TRANSFER_MS = 45 * 60_000
"""An upload from its first file to its manifest, or a download, gives up after this time."""
DELETION_DELAY_MS = 60 * 60_000
"""Objects that are younger are never deleted, nor is a checkpoint that was the newest less than this time ago. It is
longer than a transfer by a margin for what cannot be measured: a request under way, a process that stops between
looking at the clock and its next request."""
KEPT = 2
"""Number of complete checkpoints of a task that are kept."""
