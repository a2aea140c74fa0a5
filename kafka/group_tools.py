"""Lists consumer groups for tools, and removes static members whose processes have ended."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Tpo

from penstock.common.errors import ApplicationStateError, StreamsError
from penstock.kafka.group_members import Member, listed_groups
from penstock.kafka.settings import (
    MISSING_TOPIC,
    REQUEST_TIMEOUT_S,
    RETRIABLE,
    UNREACHABLE,
    as_streams_error,
    broker_errors,
    client_configuration,
    member_settings,
)
from penstock.kafka.topics import Topics

FREE_S = 30.0
"""Seconds to join and leave. The join may have to wait for other members; leaving takes milliseconds."""
_POLL_S = 0.05
_LOOK_AGAIN_S = 0.5
_BACK_S = 5.0
"""Seconds to wait for the return of a removed member: if it lives, it joins again by its next heartbeat, within 3 s."""


class GroupTools(Topics):
    """The topics of a Kafka cluster, and its groups."""

    def groups(self) -> frozenset[str]:
        """Returns the ids of all groups that the brokers know."""
        with broker_errors("list the groups", self._address):
            known, failed = listed_groups(self._client, REQUEST_TIMEOUT_S)
        if failed is not None and not known:
            raise as_streams_error(failed, "list the groups", self._address)
        return known

    def free_static_members(self, group: str) -> None:
        """Join as each static member of ``group``, and leave: librdkafka has no call that removes another member.
        Returns after some seconds in which no member has joined again.

        Raises ApplicationStateError if one has joined again, since its process lives, and if there are dynamic members,
        which only their own processes can remove.
        """
        members = self.members(group)
        if others := [str(each) for each in members if each.instance_id is None]:
            raise ApplicationStateError(
                f"group {group!r} has dynamic members (without group.instance.id), which only their own processes can "
                f"remove: {', '.join(others)}. Stop them; one that died leaves after its session.timeout.ms"
            )
        for each in members:
            assert each.instance_id is not None
            self.free_static_member(group, each.instance_id)
        deadline = time.monotonic() + _BACK_S
        while members and time.monotonic() < deadline:
            if back := self.members(group):
                raise ApplicationStateError(
                    f"a member that was removed from group {group!r} has joined again, so it lives: {back[0]}. "
                    "Stop that application first"
                )
            time.sleep(_LOOK_AGAIN_S)

    def free_static_member(self, group: str, instance_id: str, timeout_s: float = FREE_S) -> None:
        """Like :meth:`free_static_members`, for one static member whose process has ended, and without the wait for its
        return. Does nothing if it is not in the group. Raises StreamsError when it takes longer than ``timeout_s``."""
        if any(each.instance_id == instance_id for each in self.members(group)):
            self._free(group, instance_id, time.monotonic() + timeout_s)

    def _free(self, group: str, instance_id: str, deadline: float) -> None:
        with client_configuration("consumer."):
            client = Consumer(member_settings(self._address, group, instance_id, self._overrides))
        joined: list[list[Tpo]] = []

        def assigned(consumer: Consumer, partitions: list[Tpo]) -> None:
            consumer.assign([])
            joined.append(partitions)

        # A member must subscribe to a topic; any will do, since it leaves at once.
        topic = min(self.topics(), default="any")
        try:
            client.subscribe([topic], on_assign=assigned)
            while not joined:
                self._poll(client, group, instance_id, deadline)
            own = client.memberid()
            client.unsubscribe()

            def remains(each: Member) -> bool:
                # Not by the instance id: a member that lives may be back before the first look. Without an id of its
                # own, this client has just lost its place, and may be joining again.
                return each.member_id == own if own else each.instance_id == instance_id

            while any(remains(each) for each in self.members(group)):
                self._poll(client, group, instance_id, deadline)
        finally:
            client.close()

    def _poll(self, client: Consumer, group: str, instance_id: str, deadline: float) -> None:
        what = f"end the static member {instance_id!r} of group {group!r}"
        message = client.poll(_POLL_S)
        error = None if message is None else message.error()
        if error is not None and error.code() not in RETRIABLE | UNREACHABLE | MISSING_TOPIC:
            raise as_streams_error(KafkaException(error), what, self._address)
        if time.monotonic() > deadline:
            raise StreamsError(f"cannot {what} in time: check the group's other members")
