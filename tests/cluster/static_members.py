"""A static member of a group, with the assignments and errors that it gets."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from penstock.cluster.coordinator_shell.membership import Membership
from penstock.common.errors import StreamsError
from penstock.common.ids import TopicPartition
from penstock.kafka.clients import KafkaClients
from tests.actors.rig import nothing_done


@dataclass
class StaticMember:
    membership: Membership
    assigned: queue.Queue[frozenset[TopicPartition] | None]
    failed: queue.Queue[StreamsError]


@contextmanager
def static_member_for(clients: KafkaClients, *topics: str) -> Iterator[StaticMember]:
    """Yields a static member that subscribes to these topics, and leaves at the end."""
    assigned: queue.Queue[frozenset[TopicPartition] | None] = queue.Queue()
    failed: queue.Queue[StreamsError] = queue.Queue()
    membership = Membership(
        lambda: clients.group_member("member"),
        topics,
        lambda given, _: assigned.put(given),
        nothing_done,
        failed.put,
    )
    try:
        yield StaticMember(membership, assigned, failed)
    finally:
        membership.close()
