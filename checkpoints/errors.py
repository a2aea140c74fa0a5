"""The errors of checkpoints. The restore handles the first two, the owner of a writer the others."""

from __future__ import annotations

from penstock.common.errors import StreamsError


class CheckpointDamagedError(StreamsError):
    """A file of a checkpoint, or its manifest, is missing or is not what was uploaded: an older checkpoint, or the
    changelog, has the state."""


class CheckpointFormatError(StreamsError):
    """A newer version of penstock has written the checkpoint, in a format that this version does not know."""


class CheckpointSupersededError(StreamsError):
    """Another actor has the task under a newer epoch: this writer must write no further checkpoint."""


class CheckpointLateError(StreamsError):
    """The upload took so long that its files may have been deleted before a manifest named them. The next checkpoint
    does not rely on any of them."""
