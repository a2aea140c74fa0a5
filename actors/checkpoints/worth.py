"""Decides if a checkpoint saves more than its download costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from penstock.checkpoints.fitness import Verdict
from penstock.checkpoints.manifest import CheckpointManifest

WORTH_A_DOWNLOAD = 10_000
"""Least number of changelog offsets that a checkpoint must save: reading so many takes a fraction of a second."""


class LocalChangelog(NamedTuple):
    """The changelog of one store: the ``position`` from which the local store must be restored, the first offset of the
    log, and its end. ``keeps_deletions_ms``: how long it keeps deletions; None if it is not compacted."""

    position: int
    beginning: int
    end: int
    keeps_deletions_ms: int | None

    @property
    def missing(self) -> int:
        """Number of offsets that the local store lacks."""
        return max(0, self.end - self.position)


def offsets_saved(
    manifest: CheckpointManifest, verdict: Verdict, local: Mapping[str, LocalChangelog], now_ms: int
) -> int:
    """Returns the number of changelog offsets that need not be read if the checkpoint replaces the local stores;
    negative if there are more."""
    age_ms = now_ms - manifest.taken_at_ms
    saved = 0
    for name, log in local.items():
        store = manifest.stores.get(name)
        offset = None if store is None or name in verdict.wipe else store.changelog_offset
        saved += (log.beginning if offset is None else _position(offset, age_ms, log)) - log.position
    return saved


def _position(offset: int, age_ms: int, log: LocalChangelog) -> int:
    """Returns the position from which a store of the checkpoint is restored, by the rules of the restore."""
    if not log.beginning <= offset <= log.end:
        return log.beginning  # it does not belong to this changelog, or misses deleted records
    if offset < log.end and log.keeps_deletions_ms is not None and age_ms > log.keeps_deletions_ms:
        return log.beginning  # deletions may be missing
    return offset
