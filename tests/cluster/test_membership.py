"""Membership in the group: commits wait for it, errors that pass lead to another try, others end it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager

import pytest

from penstock.cluster.coordinator_shell import kept_out, membership
from penstock.cluster.coordinator_shell.membership import FINAL, Membership
from penstock.common.errors import ApplicationStateError, ConfigError, KafkaRefusedError, StreamsError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.kafka.contracts import OnAssigned, OnRevoked, OtherProtocolError, SessionLostError

HERE = TopicPartition("lines", 0)


class FakeMember:
    """Polls give what the test has put into ``script``: an assignment, or an error to raise."""

    def __init__(self, script: queue.Queue[frozenset[TopicPartition] | Exception | None]) -> None:
        self._script = script
        self.commits: list[Mapping[TopicPartition, CommittedOffset]] = []
        self.subscribed: queue.Queue[tuple[str, ...]] = queue.Queue()
        self.refusal: StreamsError | None = None
        self._joined = False
        self.closed = threading.Event()

    def subscribe(self, topics: Iterable[str], on_assigned: OnAssigned, on_revoked: OnRevoked = lambda: None) -> None:
        self._on_assigned, self._on_revoked = on_assigned, on_revoked
        self.subscribed.put(tuple(topics))

    def poll(self, timeout_s: float) -> None:
        try:
            happens = self._script.get(timeout=timeout_s or 0.001)
        except queue.Empty:
            return
        if isinstance(happens, Exception):
            raise happens
        if self._joined and happens is not None:
            self._on_revoked()
        self._joined = happens is not None
        self._on_assigned(happens)

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.commits.append(offsets)

    def group_metadata(self) -> bytes:
        return b""

    def close(self) -> None:
        self.closed.set()


class StaticMember:
    def __init__(self) -> None:
        self.script: queue.Queue[frozenset[TopicPartition] | Exception | None] = queue.Queue()
        self.members: list[FakeMember] = []
        self.assigned: queue.Queue[frozenset[TopicPartition] | None] = queue.Queue()
        self.failed: queue.Queue[StreamsError] = queue.Queue()
        self.held: queue.Queue[Future[None]] = queue.Queue()
        self.membership = Membership(
            self._member, ["lines"], lambda partitions, _: self.assigned.put(partitions), self._hold, self.failed.put
        )

    def _hold(self) -> Future[None]:
        held: Future[None] = Future()
        self.held.put(held)
        return held

    def _member(self) -> FakeMember:
        self.members.append(FakeMember(self.script))
        return self.members[-1]


@pytest.fixture(autouse=True)
def rejoining_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "_REJOIN_AFTER_S", 0.0)


@contextmanager
def taken() -> Iterator[StaticMember]:
    static_member = StaticMember()
    try:
        yield static_member
    finally:
        static_member.membership.close()
        assert all(member.closed.is_set() for member in static_member.members)


def test_a_commit_waits_until_the_static_member_has_joined() -> None:
    with taken() as static_member:
        done = static_member.membership.commit({HERE: CommittedOffset(5)})
        assert not done.done()
        static_member.script.put(frozenset({HERE}))
        done.result(60)
        assert static_member.assigned.get(timeout=60) == frozenset({HERE})
        assert static_member.members[0].commits == [{HERE: CommittedOffset(5)}]


def test_a_refused_commit_is_reported_and_the_member_remains() -> None:
    with taken() as static_member:
        static_member.script.put(frozenset({HERE}))
        static_member.assigned.get(timeout=60)
        static_member.members[0].refusal = StreamsError("generation has passed")
        with pytest.raises(StreamsError, match="generation"):
            static_member.membership.commit({}).result(60)
        static_member.members[0].refusal = None
        static_member.membership.commit({}).result(60)
        assert len(static_member.members) == 1


def test_after_the_session_is_lost_nothing_is_committed_before_the_group_has_assigned_again() -> None:
    with taken() as static_member:
        for change in (frozenset({HERE}), None):
            static_member.script.put(change)
            assert static_member.assigned.get(timeout=60) == change
        with pytest.raises(StreamsError, match="partition lines-0 is not assigned"):
            static_member.membership.commit({HERE: CommittedOffset(5)}).result(60)
        assert static_member.members[0].commits == []
        static_member.script.put(frozenset({HERE}))
        static_member.assigned.get(timeout=60)
        static_member.membership.commit({HERE: CommittedOffset(6)}).result(60)
        assert static_member.members[0].commits == [{HERE: CommittedOffset(6)}]
        assert static_member.failed.empty()


def test_only_what_the_group_assigns_is_committed() -> None:
    with taken() as static_member:
        static_member.script.put(frozenset({HERE}))
        static_member.assigned.get(timeout=60)
        elsewhere = TopicPartition("lines", 1)
        with pytest.raises(StreamsError, match="partition lines-1 is not assigned"):
            static_member.membership.commit({HERE: CommittedOffset(5), elsewhere: CommittedOffset(5)}).result(60)
        assert static_member.members[0].commits == []


def test_a_commit_that_outlived_its_session_leads_to_a_new_member() -> None:
    with taken() as static_member:
        static_member.script.put(frozenset({HERE}))
        static_member.assigned.get(timeout=60)
        static_member.members[0].refusal = SessionLostError("its session ended meanwhile")
        with pytest.raises(SessionLostError):
            static_member.membership.commit({HERE: CommittedOffset(5)}).result(60)
        assert static_member.assigned.get(timeout=60) is None
        static_member.script.put(frozenset({HERE}))
        assert static_member.assigned.get(timeout=60) == frozenset({HERE})
        static_member.membership.commit({HERE: CommittedOffset(5)}).result(60)
        assert static_member.members[0].closed.is_set()
        assert static_member.members[1].commits == [{HERE: CommittedOffset(5)}]
        assert static_member.failed.empty()


@pytest.mark.parametrize("error", [StreamsError("lost"), SessionLostError("a minute without a session")])
def test_an_error_that_passes_leads_to_a_new_member_and_the_session_of_the_old_one_is_lost(error: StreamsError) -> None:
    with taken() as static_member:
        static_member.script.put(frozenset({HERE}))
        assert static_member.assigned.get(timeout=60) == frozenset({HERE})
        static_member.script.put(error)
        assert static_member.assigned.get(timeout=60) is None
        static_member.script.put(frozenset({HERE}))
        assert static_member.assigned.get(timeout=60) == frozenset({HERE})
        assert len(static_member.members) == 2
        assert static_member.members[0].closed.is_set()


def test_a_session_is_lost_once_however_many_members_join_in_vain() -> None:
    with taken() as static_member:
        for happens in (None, SessionLostError("a minute without a session"), StreamsError("again"), frozenset({HERE})):
            static_member.script.put(happens)
        assert static_member.assigned.get(timeout=60) is None
        assert static_member.assigned.get(timeout=60) == frozenset({HERE})
        assert len(static_member.members) == 3


def test_a_commit_does_not_wait_for_the_member_that_joins_after_a_lost_session() -> None:
    with taken() as static_member:
        static_member.script.put(frozenset({HERE}))
        static_member.assigned.get(timeout=60)
        static_member.script.put(SessionLostError("no broker answers"))
        assert static_member.assigned.get(timeout=60) is None
        with pytest.raises(StreamsError, match="partition lines-0 is not assigned"):  # an application may be stopped
            static_member.membership.commit({HERE: CommittedOffset(5)}).result(60)
        assert static_member.failed.empty()


def test_a_static_member_that_was_replaced_ends_and_refuses_waiting_commits() -> None:
    with taken() as static_member:
        waiting = static_member.membership.commit({})
        static_member.script.put(ApplicationStateError("fenced"))
        assert str(static_member.failed.get(timeout=60)) == "fenced"
        for commit in (waiting, static_member.membership.commit({})):
            with pytest.raises(StreamsError, match="left the group"):
                commit.result(60)


def test_an_error_that_nobody_foresaw_is_reported_instead_of_leaving_commits_waiting() -> None:
    with taken() as static_member:
        waiting = static_member.membership.commit({})
        static_member.script.put(ValueError("unforeseen"))
        assert "unforeseen" in str(static_member.failed.get(timeout=60))
        with pytest.raises(StreamsError, match="left the group"):
            waiting.result(60)


@pytest.mark.parametrize("final", [KafkaRefusedError("not authorised"), ConfigError("a wrong key")])
def test_an_error_that_a_retry_cannot_fix_ends_the_membership_with_its_reason(final: StreamsError) -> None:
    with taken() as static_member:
        static_member.script.put(final)
        assert static_member.failed.get(timeout=60) is final
        assert len(static_member.members) == 1


def test_a_commit_that_kafka_refuses_for_good_ends_the_membership_and_later_ones_are_refused_at_once() -> None:
    with taken() as static_member:
        static_member.script.put(frozenset({HERE}))
        static_member.assigned.get(timeout=60)
        static_member.members[0].refusal = KafkaRefusedError("Group authorization failed")
        with pytest.raises(KafkaRefusedError, match="Group authorization failed"):
            static_member.membership.commit({}).result(60)
        assert "authorization" in str(static_member.failed.get(timeout=60))
        with pytest.raises(FINAL, match="left the group"):
            static_member.membership.commit({}).result(60)


def test_a_static_member_can_subscribe_to_other_topics_without_leaving() -> None:
    with taken() as static_member:
        static_member.script.put(frozenset({HERE}))
        static_member.assigned.get(timeout=60)
        static_member.membership.subscribe(["lines", "new"])
        (member,) = static_member.members
        assert [member.subscribed.get(timeout=60) for _ in range(2)] == [("lines",), ("lines", "new")]
        assert not member.closed.is_set()


def test_work_is_committed_before_the_group_assigns_again() -> None:
    with taken() as static_member:
        for _ in range(2):
            static_member.script.put(frozenset({HERE}))
        assert static_member.assigned.get(timeout=60) == frozenset({HERE})
        held = static_member.held.get(timeout=60)
        static_member.membership.commit({HERE: CommittedOffset(5)}).result(60)
        assert static_member.members[0].commits == [{HERE: CommittedOffset(5)}]
        assert static_member.assigned.empty()
        held.set_result(None)
        assert static_member.assigned.get(timeout=60) == frozenset({HERE})


def test_a_commit_that_is_refused_then_does_not_keep_the_group_waiting() -> None:
    with taken() as static_member:
        for _ in range(2):
            static_member.script.put(frozenset({HERE}))
        static_member.held.get(timeout=60)
        static_member.members[0].refusal = SessionLostError("gone")
        with pytest.raises(SessionLostError):
            static_member.membership.commit({HERE: CommittedOffset(5)}).result(60)
        assert static_member.assigned.get(timeout=60) == frozenset({HERE})
        assert static_member.assigned.get(timeout=60) == frozenset({HERE})


def test_a_member_that_others_kept_out_joins_when_they_have_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_out, "AGAIN_S", 0.0)
    with taken() as static_member:
        for _ in range(3):
            static_member.script.put(OtherProtocolError("the group has other members"))
        static_member.script.put(frozenset({HERE}))
        assert static_member.assigned.get(timeout=60) == frozenset({HERE})
        assert static_member.membership.waits_for is None
        assert static_member.failed.empty()
