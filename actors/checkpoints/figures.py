"""Figures about the checkpoints of one task."""

from __future__ import annotations

from penstock.checkpoints.manifest import CheckpointManifest
from penstock.common.metric_names import TASK, Measured


class CheckpointFigures:
    """The figures of the checkpoints that an actor has taken of a task since it has it."""

    def __init__(self) -> None:
        self.error: str | None = None
        """The error of the last attempt; None if it has succeeded."""
        self._taken = self._failed = 0
        self._uploaded_bytes = 0
        self._size: int | None = None
        self._taken_at_ms: int | None = None
        self._took_s = self._longest_pause_s = 0.0

    def paused(self, seconds: float) -> None:
        """Records waited for so long while the hard links were made."""
        self._longest_pause_s = max(self._longest_pause_s, seconds)

    def saved(self, manifest: CheckpointManifest, took_s: float) -> None:
        """A checkpoint was stored, after so many seconds."""
        self.error = None
        self._taken += 1
        self._uploaded_bytes += sum(file.size for file in manifest.files.values() if file.uploaded)
        self._size, self._taken_at_ms, self._took_s = manifest.size, manifest.taken_at_ms, took_s

    def failed(self, error: BaseException) -> None:
        """A checkpoint was not stored."""
        self.error = str(error)
        self._failed += 1

    def measured(self, wall_ms: int) -> Measured:
        """Returns the metrics. There is no age, size or time before the first checkpoint."""
        found: Measured = {
            (TASK, "checkpoint-total"): self._taken,
            (TASK, "checkpoint-failed-total"): self._failed,
            (TASK, "checkpoint-uploaded-bytes-total"): self._uploaded_bytes,
            (TASK, "checkpoint-pause-max"): 1000 * self._longest_pause_s,
        }
        if self._size is not None and self._taken_at_ms is not None:
            found[TASK, "checkpoint-size-bytes"] = self._size
            found[TASK, "checkpoint-age-ms"] = max(0, wall_ms - self._taken_at_ms)
            found[TASK, "checkpoint-time-ms"] = 1000 * self._took_s
        return found
