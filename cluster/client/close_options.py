"""Options for closing an application: a time limit, and leaving the consumer group."""

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
        """The choice between staying in the consumer group after the close, and leaving it.

        ``REMAIN_IN_GROUP``, the default: the static member stays until ``consumer.session.timeout.ms`` has passed. An
        application that starts before then becomes that static member again without a rebalance. ``LEAVE_GROUP``: the
        static member leaves at once, which frees the group for other clusters in it, a reset or a backfill.
        """

        LEAVE_GROUP = "LEAVE_GROUP"
        REMAIN_IN_GROUP = "REMAIN_IN_GROUP"

    timeout_s: float = 60.0
    operation: GroupMembershipOperation = GroupMembershipOperation.REMAIN_IN_GROUP

    @staticmethod
    def timeout(timeout_s: float) -> CloseOptions:
        """Returns options that limit the time that ``close`` may take."""
        return CloseOptions(timeout_s)

    @staticmethod
    def group_membership_operation(operation: GroupMembershipOperation) -> CloseOptions:
        """Returns options that decide if ``close`` leaves the consumer group. Raises TypeError."""
        return CloseOptions().with_group_membership_operation(operation)

    def with_timeout(self, timeout_s: float) -> CloseOptions:
        """Returns a copy with another time limit."""
        return replace(self, timeout_s=timeout_s)

    def with_group_membership_operation(self, operation: GroupMembershipOperation) -> CloseOptions:
        """Returns a copy with another decision on leaving the consumer group. Raises TypeError."""
        if not isinstance(operation, CloseOptions.GroupMembershipOperation):
            raise TypeError(
                "LEAVE_GROUP or REMAIN_IN_GROUP of CloseOptions.GroupMembershipOperation is needed, not "
                f"{shown_with_type(operation)}"
            )
        return replace(self, operation=operation)

    @property
    def leaves(self) -> bool:
        """True if ``close`` leaves the consumer group."""
        return self.operation is CloseOptions.GroupMembershipOperation.LEAVE_GROUP
