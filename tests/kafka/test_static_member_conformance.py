"""A static member acts the same on Kafka, by both bindings, and on the fake broker."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.common.errors import ApplicationStateError, StreamsError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import GroupMember, SessionLostError
from tests.kafka.conftest import Rig

Eventually = Callable[[Callable[[], bool], str], None]
SESSION_S = 8.0
"""Length of a session, more than the least that a broker allows."""


class StaticMember:
    """A group member that keeps the assignments that it got."""

    def __init__(self, rig: Rig, instance: str, *topics: str) -> None:
        self.reported: list[frozenset[TopicPartition]] = []
        self.last_commit: dict[TopicPartition, CommittedOffset] = {}
        """The offsets that it commits when the group is about to hand out its partitions again."""
        self.member: GroupMember = rig.clients.group_member(instance)
        self.member.subscribe(
            topics,
            lambda assigned: self.reported.append(assigned or frozenset()),
            lambda: self.member.commit(self.last_commit),
        )

    def has(self, *partitions: TopicPartition) -> bool:
        self.member.poll(0.05)
        return bool(self.reported) and self.reported[-1] == frozenset(partitions)


def test_one_member_gets_all_and_commits_with_metadata(rig: Rig, eventually: Eventually) -> None:
    topic = rig.topic(partitions=2)
    all_of_it = (TopicPartition(topic, 0), TopicPartition(topic, 1))
    static_member = StaticMember(rig, "one", topic)
    eventually(lambda: static_member.has(*all_of_it), "the assignment")
    assert rig.clients.admin().group_members(rig.group) == 1
    static_member.member.commit({all_of_it[1]: CommittedOffset(7, "AgAAAAAAAAAK")})
    static_member.member.commit({})
    assert rig.clients.admin().committed(rig.group) == {all_of_it[1]: CommittedOffset(7, "AgAAAAAAAAAK")}
    assert isinstance(static_member.member.group_metadata(), bytes)
    with pytest.raises(ApplicationStateError, match="has members"):
        rig.clients.admin().commit(rig.group, {all_of_it[0]: CommittedOffset(1)})
    assert len(static_member.reported) == 1
    static_member.member.close()


def test_two_members_share_by_range_and_topics_are_co_assigned(rig: Rig, eventually: Eventually) -> None:
    left, right = rig.topic(partitions=2), rig.topic(partitions=2)
    members = [StaticMember(rig, "one", left, right), StaticMember(rig, "two", left, right)]

    def settled() -> bool:
        for static_member in members:
            static_member.member.poll(0.05)
        shares = [static_member.reported[-1] if static_member.reported else frozenset() for static_member in members]
        return all(len(share) == 2 for share in shares) and not shares[0] & shares[1]

    eventually(settled, "both have a share")
    for static_member in members:
        assert len({tp.partition for tp in static_member.reported[-1]}) == 1
        static_member.member.close()


def test_offsets_that_a_member_commits_before_the_group_assigns_again_count(rig: Rig, eventually: Eventually) -> None:
    topic = rig.topic(partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    before = StaticMember(rig, "one", topic)
    eventually(lambda: before.has(first, second), "the first assignment")
    before.last_commit = {first: CommittedOffset(5), second: CommittedOffset(6)}
    after = StaticMember(rig, "two", topic)

    def shared() -> bool:
        return (
            before.has(first) is not after.has(first, second) and len(after.reported) > 0 and len(before.reported) > 1
        )

    eventually(shared, "both have a share")
    assert rig.clients.admin().committed(rig.group) == before.last_commit
    for static_member in (before, after):
        static_member.member.close()


def test_the_next_incarnation_becomes_the_static_member_and_fences_the_one_before(
    rig: Rig, eventually: Eventually
) -> None:
    topic = rig.topic()
    tp = TopicPartition(topic, 0)
    before = StaticMember(rig, "one", topic)
    eventually(lambda: before.has(tp), "the first assignment")
    after = StaticMember(rig, "one", topic)
    eventually(lambda: after.has(tp), "the second assignment")
    after.member.commit({tp: CommittedOffset(1)})
    with pytest.raises(StreamsError):
        before.member.commit({tp: CommittedOffset(9)})
    with pytest.raises(ApplicationStateError, match="has become the static member"):
        eventually(lambda: before.has(), "the fence")
    assert rig.clients.admin().committed(rig.group) == {tp: CommittedOffset(1)}
    after.member.close()


def test_a_closed_member_remains_in_the_group(rig: Rig, eventually: Eventually) -> None:
    topic = rig.topic()
    static_member = StaticMember(rig, "one", topic)
    eventually(lambda: static_member.has(TopicPartition(topic, 0)), "the assignment")
    static_member.member.close()
    assert rig.clients.admin().group_members(rig.group) == 1


def test_a_member_that_is_fenced_before_it_has_joined_may_join_again(real: Rig, eventually: Eventually) -> None:
    """Its own older request may fence it, found by a broker that was away. No other process has joined in its place."""
    topic = real.topic(partitions=2)
    neighbour = StaticMember(real, "two", topic)
    eventually(lambda: neighbour.has(TopicPartition(topic, 0), TopicPartition(topic, 1)), "the first assignment")
    joining = StaticMember(real, "one", topic)
    admin = real.clients.admin()
    eventually(
        lambda: not joining.has() and admin.group_members(real.group) == 2,
        "it waits for the neighbour, which does not poll",
    )
    by_the_same_name = StaticMember(real, "one", topic)
    with pytest.raises(SessionLostError, match="fenced while it joined"):
        eventually(lambda: joining.has() or by_the_same_name.has(), "the fence")


class MemberProcess:
    """A static member in a process of its own, which a test can stop and continue. ``message``: its printed lines."""

    PROGRAM = """if True:
        import sys
        from penstock.common.errors import ApplicationStateError
        from penstock.kafka.clients import ConfluentClients
        address, group, topic = sys.argv[1:]
        settings = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
        member = ConfluentClients(address, group, consumer_overrides=settings).group_member("one")
        member.subscribe([topic], lambda partitions: print("lost" if partitions is None else "assigned", flush=True))
        try:
            while True:
                member.poll(0.1)
        except ApplicationStateError:
            print("taken", flush=True)
    """

    def __init__(self, rig: Rig, topic: str, folder: Path) -> None:
        assert isinstance(rig.clients, ConfluentClients)
        self._path = folder / "message"
        arguments = [sys.executable, "-c", self.PROGRAM, rig.clients.bootstrap_servers, rig.group, topic]
        with self._path.open("w") as message:
            self.process = subprocess.Popen(arguments, stdout=message)

    @property
    def message(self) -> list[str]:
        return self._path.read_text().split()


@pytest.mark.long
def test_a_process_that_was_frozen_for_a_session_gives_way_to_the_new_static_member(
    real: Rig, eventually: Eventually, tmp_path: Path
) -> None:
    """librdkafka forgets its id in the group, and would join as the next static member."""
    topic = real.topic()
    before = MemberProcess(real, topic, tmp_path)
    try:
        eventually(lambda: before.message == ["assigned"], "the first assignment")
        before.process.send_signal(signal.SIGSTOP)
        after = StaticMember(real, "one", topic)
        eventually(lambda: after.has(TopicPartition(topic, 0)), "the second assignment")
        lasting_until_s = time.monotonic() + SESSION_S
        eventually(
            lambda: after.has(TopicPartition(topic, 0)) and time.monotonic() > lasting_until_s, "its session ends"
        )
        before.process.send_signal(signal.SIGCONT)
        eventually(lambda: after.has(TopicPartition(topic, 0)) and "taken" in before.message, "it gives way")
        assert before.message.count("assigned") == 1
        after.member.commit({TopicPartition(topic, 0): CommittedOffset(1)})
        after.member.close()
    finally:
        before.process.kill()
        before.process.wait()
