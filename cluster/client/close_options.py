"""Options for closing an application: the time that it may take, and whether it leaves its consumer group."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from penstock.common.shown import shown_with_type


@dataclass(frozen=True)
class CloseOptions:
    """Options of :meth:`KafkaStreams.close`. Mirrors ``CloseOptions``; times are seconds.

    ::

        app.close(CloseOptions.group_membership_operation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP))
    """

    class GroupMembershipOperation(Enum):
        """Decides what becomes of the static member in the consumer group.

        ``REMAIN_IN_GROUP``, the default: it stays until ``consumer.session.timeout.ms`` has passed, so that a start
        until then takes it again without a rebalance. ``LEAVE_GROUP``: it is free at once, for other clusters in the
        group, a reset or a backfill.
        """

        LEAVE_GROUP = "LEAVE_GROUP"
        REMAIN_IN_GROUP = "REMAIN_IN_GROUP"

    timeout_s: float = 60.0
    operation: GroupMembershipOperation = GroupMembershipOperation.REMAIN_IN_GROUP

    @staticmethod
    def timeout(timeout_s: float) -> CloseOptions:
        """Limit the time that it may take."""
        return CloseOptions(timeout_s)

    @staticmethod
    def group_membership_operation(operation: GroupMembershipOperation) -> CloseOptions:
        """Decide whether it leaves the group."""
        return CloseOptions().with_group_membership_operation(operation)

    def with_timeout(self, timeout_s: float) -> CloseOptions:
        """Limit the time that it may take."""
        return replace(self, timeout_s=timeout_s)

    def with_group_membership_operation(self, operation: GroupMembershipOperation) -> CloseOptions:
        """Decide whether it leaves the group."""
        if not isinstance(operation, CloseOptions.GroupMembershipOperation):
            raise TypeError(
                "LEAVE_GROUP or REMAIN_IN_GROUP of CloseOptions.GroupMembershipOperation is needed, not "
                f"{shown_with_type(operation)}"
            )
        return replace(self, operation=operation)

    @property
    def leaves(self) -> bool:
        """True if it leaves the group."""
        return self.operation is CloseOptions.GroupMembershipOperation.LEAVE_GROUP
