"""Lists the members of a consumer group, as its broker knows them.

Every admin operation that librdkafka sends to a group's coordinator ends the whole process by an assertion when the
connection breaks at the wrong moment (librdkafka 2.16, its pull request 5397): DescribeConsumerGroups,
AlterConsumerGroupOffsets, ListConsumerGroupOffsets, DeleteConsumerGroups and DeleteConsumerGroupOffsets. The older
``list_groups`` takes another path through librdkafka, so it is used to list members. It differs in two ways. It does
not return the id of a static member, which Kafka puts at the beginning of the member's id. And it may skip a broker
that fails.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from typing_extensions import override

from penstock.kafka.answers import bounded_result
from penstock.kafka.settings import REQUEST_TIMEOUT_S, RETRIABLE, UNREACHABLE, code_of

_LOOK_AGAIN_S = 0.1
_UNIQUE = len("-14401d05-998b-4c02-806e-7f460ccddf56")
"""Length of the part that Kafka appends to a member's ``group.instance.id``, or to its ``client.id`` if it is not
static."""


@dataclass(frozen=True)
class Member:
    """A member of a group as its broker knows it. ``instance_id`` is the id of a static member, None for any other."""

    member_id: str
    instance_id: str | None
    client: str
    host: str

    @override
    def __str__(self) -> str:
        return f"{self.instance_id or self.member_id} of {self.host.removeprefix('/')}"


def instance_id_of(member_id: str, client_id: str) -> str | None:
    """Returns the ``group.instance.id`` of a static member, None for any other. A static member whose id is also its
    ``client.id`` counts as not static."""
    name = member_id[:-_UNIQUE]
    return name if name and name != client_id else None


def members_of(client: AdminClient, group: str, timeout_s: float = REQUEST_TIMEOUT_S) -> tuple[Member, ...]:
    """Returns the members of ``group``: none if it does not exist. Raises KafkaException; for a transient error only if
    no broker has answered within ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return _asked(client, group, max(deadline - time.monotonic(), _LOOK_AGAIN_S))
        except KafkaException as error:
            if code_of(error) not in RETRIABLE | UNREACHABLE or time.monotonic() + _LOOK_AGAIN_S > deadline:
                raise
        time.sleep(_LOOK_AGAIN_S)


def listed_groups(client: AdminClient, timeout_s: float) -> tuple[frozenset[str], KafkaException | None]:
    """Returns the ids of the groups that the brokers know, and the error of a broker that did not answer, if any.
    Raises KafkaException."""
    listed = bounded_result(client.list_consumer_groups(request_timeout=timeout_s), timeout_s)
    error = listed.errors[0] if listed.errors else None
    # confluent-kafka declares KafkaException, but gives KafkaError, which is not an exception.
    failed = KafkaException(error) if isinstance(error, KafkaError) else error
    return frozenset(each.group_id for each in listed.valid), failed


def _asked(client: AdminClient, group: str, timeout_s: float) -> tuple[Member, ...]:
    known, failed = listed_groups(client, timeout_s)
    if group not in known:
        if failed is not None:
            raise failed
        return ()
    described = client.list_groups(group, timeout_s)
    if not described:  # its coordinator has just changed
        raise KafkaException(KafkaError(KafkaError._PARTIAL))
    if described[0].error is not None:
        raise KafkaException(described[0].error)
    members: list[Any] = described[0].members  # confluent-kafka declares None for some of their strings
    return tuple(Member(it.id, instance_id_of(it.id, it.client_id), it.client_id, it.client_host) for it in members)
