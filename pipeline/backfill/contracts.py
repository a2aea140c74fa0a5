"""The contract of a hand-over: how results, state and offsets of a backfill become those of the application."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.pipeline.backfill.stage_rows import StageRows


class HandOver(Protocol):
    """Takes what the stages have computed. The calls come in the order of these methods, each once. After an error
    another attempt begins with the first of them.

    Every call may raise StreamsError.
    """

    def note(self) -> None:
        """Prepare, before anything is written: until :meth:`withdraw` an application that would see half of the
        hand-over does not start."""

    def results(self, rows: StageRows) -> Mapping[str, int]:
        """Write the records of sinks; returns their number by topic. If it fails, any of them may have been written."""

    def state(self, rows: StageRows) -> Mapping[str, int]:
        """Write the rows of changelogs; returns their number by topic."""

    def offsets(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit: from now on results and state count, and the application continues at ``offsets``."""

    def withdraw(self) -> None:
        """Withdraw what :meth:`note` has prepared."""
