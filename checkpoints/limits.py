"""The times that keep deletions apart from uploads and downloads."""

from __future__ import annotations

LONGEST_UPLOAD_MS = 45 * 60_000
"""An upload that takes longer, from its first file to its manifest, gives up."""
DELETION_DELAY_MS = 60 * 60_000
"""Objects that are younger are never deleted. Nor is a checkpoint that was one of those to be kept less than this time
ago: a restore may be reading it. It is longer than an upload by a margin for what no clock sees: a request under way,
and a process that stops between looking at its clock and its next request."""
HAND_OVER_DELAY_MS = 7 * 24 * 60 * 60_000
"""Like :data:`DELETION_DELAY_MS`, for the files of a hand-over: a backfill uploads them long before it commits."""
KEPT = 2
"""Number of complete checkpoints of a task that are kept."""
