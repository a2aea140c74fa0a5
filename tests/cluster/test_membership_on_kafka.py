"""The static member while the broker is away for longer than a session lasts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cluster.coordinator_shell.membership import FINAL, Membership
from penstock.common.errors import StreamsError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.local_broker.broker import LocalBroker
from tests.cluster.static_members import static_member_for
from tests.waiting import PATIENCE_S, eventually

HERE = TopicPartition("lines", 0)


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[LocalBroker]:
    broker = LocalBroker(tmp_path / "broker", port=0)
    with broker:
        yield broker


def committed(membership: Membership, offset: int) -> bool:
    """Commit as the dispatcher does: what passes is tried again, what is final fails the test."""
    try:
        membership.commit({HERE: CommittedOffset(offset)}).result(60)
    except FINAL:
        raise
    except StreamsError:
        return False
    return True


@pytest.mark.long
def test_a_commit_continues_after_the_broker_was_away_for_longer_than_the_session(own_broker: LocalBroker) -> None:
    address = own_broker.status().bootstrap_servers
    clients = ConfluentClients(address, "group", {"session.timeout.ms": 6_000})
    admin = clients.admin()
    admin.create_topics([NewTopic("lines", 1)])
    with static_member_for(clients, "lines") as static_member:
        assert static_member.assigned.get(timeout=PATIENCE_S) == frozenset({HERE})
        assert committed(static_member.membership, 1)
        own_broker.stop()
        while (
            static_member.assigned.empty()
        ):  # the thread polls only between commits, each of which librdkafka keeps for a while
            assert not committed(static_member.membership, 2)
        assert static_member.assigned.get() is None, "the session is lost"
        own_broker.start()
        eventually(lambda: committed(static_member.membership, 3), "committed again", 60, 0)
        assert static_member.assigned.get(timeout=60) == frozenset({HERE})
        assert static_member.failed.empty()
        assert admin.committed("group") == {HERE: CommittedOffset(3)}
