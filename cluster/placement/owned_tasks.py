"""The tasks of this Ray cluster: those whose partitions the consumer group gives to it, while its session lasts."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.common.ids import TaskId, TopicPartition
from penstock.topology.physical.task_plan import TaskPlan


class OwnedTasks:
    """The part of the coordinator's state machine that looks at the group: plan and partitions in, tasks out.

    While a session is lost, no task is ours. What was begun under it is never committed under the next one: others may
    have had the partitions since, and our state would lack their updates.
    """

    def __init__(self, plan: TaskPlan) -> None:
        self.plan = plan
        self.tasks: frozenset[TaskId] = frozenset()
        self.deleted_topics: frozenset[str] = frozenset()
        """Topics of earlier plans that were deleted: Kafka takes no offsets of them."""
        self.session_lost = False
        self.rebalancing = False
        """True while the group assigns its partitions again: this cluster's part is not known yet."""
        self.group_metadata = b""
        """The group metadata that shows a transaction to be this member's, of the generation that gave these tasks."""
        self._partitions: frozenset[TopicPartition] | None = None  # None until the group has answered
        self._lost_epoch = 0  # the last one before a session was lost

    @property
    def is_known(self) -> bool:
        """True if the group has answered since the coordinator began."""
        return self._partitions is not None

    @property
    def unplanned(self) -> frozenset[TopicPartition]:
        """Partitions that the group gives to this cluster but no task reads: a source topic has grown, plan again."""
        return (self._partitions or frozenset()) - self.plan.reads

    @property
    def orphaned(self) -> frozenset[TopicPartition]:
        """Partitions that the group gives to this cluster without others that their task reads: a topic may be gone."""
        mine = frozenset(tp for task in self.tasks for tp in self.plan.partitions[task])
        return (self._partitions or frozenset()) - mine

    def under_lost_session(self, epoch: int) -> bool:
        """Returns True if the epoch was given out under a session that is lost."""
        return epoch <= self._lost_epoch

    def assign(self, partitions: frozenset[TopicPartition] | None, epoch: int, group_metadata: bytes = b"") -> None:
        """Take what the group gives: None if the session is lost, with the last ``epoch`` given out so far."""
        self.rebalancing = False
        self.session_lost = partitions is None
        if self.session_lost:
            self._lost_epoch = epoch
        self._partitions = partitions or frozenset()
        self.group_metadata = group_metadata
        self.tasks = self.plan.owned(self._partitions)

    def replan(self, plan: TaskPlan) -> None:
        """Take another plan if it fits now; otherwise it comes again once the group has given what it reads.

        The coordinator sees new partitions before the group assigns them. Until then, a task that reads a new partition
        would belong to no cluster. Once the group assigns them, they are unplanned. If topics are gone, tasks may be
        gone, too.
        """
        if self.session_lost:
            return  # what the next one gives is not known yet
        tasks = plan.owned(self._partitions or frozenset())
        if self.unplanned or tasks >= self.tasks & plan.partitions.keys():
            self.deleted_topics = (self.deleted_topics | set(self.plan.topics)) - set(plan.topics)
            self.plan, self.tasks = plan, tasks

    def refusal_reason(self, epoch: int, partitions: Iterable[TopicPartition]) -> str | None:
        """Returns the reason why the group's assignment forbids this commit under ``epoch``; None if it does not."""
        if self.under_lost_session(epoch):
            return f"epoch {epoch} belongs to a session in the group that is lost"
        # Unknown just after a restart: then the group itself judges the commit.
        if self._partitions is not None and (lost := sorted(set(partitions) - self._partitions)):
            return f"partition {lost[0]} is not assigned to this cluster"
        return None
