"""The questions of a stream loop to the coordinator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future

from typing_extensions import override

from penstock.actors.commit_messages import CommitAnswer, CommitRequest
from penstock.actors.commits.guarantee import Ask
from penstock.common.ids import CommittedOffset, TopicPartition

Committer = Callable[[CommitRequest], "Future[CommitAnswer]"]
"""Carries a request to the coordinator. The future fails only if the coordinator will not return."""


class Questions(Ask):
    """Numbers the requests of one actor, sent under the assignment of ``epoch``. Each answer calls ``wake``."""

    def __init__(self, actor_id: str, committer: Committer, epoch: Callable[[], int], wake: Callable[[], None]) -> None:
        self._actor_id = actor_id
        self._committer = committer
        self._epoch = epoch
        self._wake = wake
        self._asked = 0

    @override
    def __call__(
        self, offsets: Mapping[TopicPartition, CommittedOffset], presence: bool = False
    ) -> Future[CommitAnswer]:
        self._asked += 1
        asked = self._committer(CommitRequest(self._actor_id, self._epoch(), offsets, self._asked, presence))
        asked.add_done_callback(lambda _: self._wake())
        return asked
