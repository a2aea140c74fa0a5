"""The coordinator's membership in the consumer group, in a thread of its own: it polls, and commits on request."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial

from penstock.cluster.coordinator_shell.kept_out import KeptOut
from penstock.common.errors import (
    ApplicationStateError,
    ConfigError,
    KafkaRefusedError,
    MissingTopicError,
    StreamsError,
)
from penstock.common.ids import Offsets, TopicPartition
from penstock.common.log import logger
from penstock.kafka.contracts import GroupMember, OtherProtocolError, SessionLostError
from penstock.kafka.settings import SESSION_TIMEOUT_MS

_POLL_EACH_S = 0.1
_REJOIN_AFTER_S = 1.0
_CLOSE_PATIENCE_S = 90.0
FINAL = (ApplicationStateError, ConfigError, KafkaRefusedError, MissingTopicError)
"""Another process is the member, Kafka does not let us be it, or a topic is gone: no other try would help."""


class Membership:
    """Stays a member until closed; joins again after errors that pass. Commits only what the group assigns to it.
    Waits, for as long as it takes, until members of another protocol have left.

    ``on_assigned`` gets each whole assignment of the group, with the group metadata that a transaction needs in that
    generation. It gets None when the session is lost, as it is when a client is given up.
    ``on_revoked`` begins the last commits before another assignment comes, which waits until its future is done.
    ``on_failed`` gets the error that ended the membership permanently, at most once. All three are called in the
    thread. ``session_s`` is the longest time in seconds that members of an application that has ended should stay.
    """

    def __init__(
        self,
        member: Callable[[], GroupMember],
        topics: Iterable[str],
        on_assigned: Callable[[frozenset[TopicPartition] | None, bytes], None],
        on_revoked: Callable[[], Future[None]],
        on_failed: Callable[[StreamsError], None],
        session_s: float = SESSION_TIMEOUT_MS / 1000,
    ) -> None:
        self._member = member
        self._topics = tuple(topics)
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._on_failed = on_failed
        self._commits: queue.SimpleQueue[tuple[Offsets, Future[None]]] = queue.SimpleQueue()
        self._mine: frozenset[TopicPartition] | None = None  # None until the group has answered for the first time
        self._session_lost = False
        self._closing = threading.Event()
        self._log = logger(__name__)
        self._kept_out = KeptOut(session_s, self._log)
        self._thread = threading.Thread(target=self._run, name="penstock-membership", daemon=True)
        self._thread.start()

    @property
    def waits_for(self) -> str | None:
        """The notice to users while other members keep this one out; None if none do."""
        return self._kept_out.notice

    def commit(self, offsets: Offsets) -> Future[None]:
        """Commit as a member, as soon as the group has answered. The future raises one of FINAL when that will never
        succeed (the membership is given up), else StreamsError."""
        done: Future[None] = Future()
        self._commits.put((offsets, done))
        if self._closing.is_set():
            self._refuse_waiting()  # the thread may have looked for the last time
        return done

    def subscribe(self, topics: Iterable[str]) -> None:
        """Be a member for these topics from now on; the group assigns their partitions again."""
        self._topics = tuple(topics)

    def close(self) -> None:
        """Leave the poll loop and wait until the client is closed, unless a commit in a rebalance hangs because the
        broker has gone. Idempotent."""
        self._closing.set()
        self._thread.join(_CLOSE_PATIENCE_S)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                if self._topics:
                    self._poll_as_member()
                else:
                    self._wait_for_topics()
            except FINAL as error:
                self._on_failed(error)
                break
            except OtherProtocolError as error:
                self._closing.wait(self._kept_out.refused(error, time.monotonic(), time.time()))
            except StreamsError as error:
                self._log.warning("rejoining the consumer group with a new client", error=str(error))
                self._closing.wait(_REJOIN_AFTER_S)
            except Exception as error:  # a thread dies unnoticed, and without a member nothing is committed
                self._log.error("group membership failed", exc_info=error)
                self._on_failed(StreamsError(f"internal error in the group's member: {error!r}"))
                break
        self._closing.set()
        self._refuse_waiting()

    def _poll_as_member(self) -> None:
        member = self._member()
        try:
            subscribed: tuple[str, ...] = ()
            while not self._closing.is_set() and self._topics:
                if subscribed != self._topics:
                    subscribed = self._topics
                    member.subscribe(subscribed, partial(self._assigned, member), partial(self._revoked, member))
                if self._mine is None:
                    # A commit of a static member that has not joined yet is taken for one of its former life: fenced.
                    member.poll(_POLL_EACH_S)
                else:
                    self._commit_waiting(member, self._mine)
                    member.poll(0)
        except FINAL:
            raise
        except StreamsError as error:
            if isinstance(error, OtherProtocolError) and self._mine is None:
                raise  # there was no session yet that could be lost
            self._assigned(member, None)  # the next client cannot know if the group has kept the member for it
            raise
        finally:
            member.close()

    def _wait_for_topics(self) -> None:
        """Be assigned nothing, refuse commits and wait a little: there is no topic, and no group assigns anything to a
        member without topics."""
        if self._mine != frozenset():
            self._mine = frozenset()
            self._on_assigned(self._mine, b"")
        self._refuse_waiting("there is no topic to be a member for")
        self._closing.wait(_POLL_EACH_S)

    def _assigned(self, member: GroupMember, partitions: frozenset[TopicPartition] | None) -> None:
        if partitions is None and self._session_lost:
            return
        self._session_lost = partitions is None
        if self._session_lost:
            self._log.warning("session in the group lost: no task runs until there is another")
        # Nothing is ours after a lost session. The set is empty, not None: commits are refused and do not wait for the
        # next session, for which the end of the application would wait, too.
        self._mine = partitions or frozenset()
        if partitions is not None:
            self._kept_out.joined()
        self._on_assigned(partitions, b"" if partitions is None else member.group_metadata())

    def _revoked(self, member: GroupMember) -> None:
        if not self._mine or self._closing.is_set():
            return
        committed = self._on_revoked()
        while not committed.done() and not self._closing.is_set():
            try:
                self._commit_waiting(member, self._mine)
            except StreamsError as error:  # the callers have it; the poll that follows shows what is to be done
                self._log.warning("not committed before the rebalance", error=str(error))
                break

    def _commit_waiting(self, member: GroupMember, mine: frozenset[TopicPartition]) -> None:
        try:
            offsets, done = self._commits.get(timeout=_POLL_EACH_S)
        except queue.Empty:
            return
        if not done.set_running_or_notify_cancel():
            return
        # After a lost session this is all of them: until a client has joined again its commits would be fenced.
        if foreign := sorted(offsets.keys() - mine):
            done.set_exception(StreamsError(f"partition {foreign[0]} is not assigned to this member of the group now"))
            return
        try:
            member.commit(offsets)
        except FINAL as error:
            self._on_failed(error)
            self._closing.set()
            done.set_exception(error)
        except SessionLostError as error:
            done.set_exception(error)
            raise  # the client is of no more use: join again with another
        except StreamsError as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    def _refuse_waiting(self, why: str | None = None) -> None:
        """Refuse commits that wait. ``why``: they may be requested again; without it, never."""
        while True:
            try:
                _, done = self._commits.get_nowait()
            except queue.Empty:
                return
            if done.set_running_or_notify_cancel():
                error = StreamsError(why) if why else ApplicationStateError("the coordinator has left the group")
                done.set_exception(error)
