"""The coordinator as static member of the consumer group, on librdkafka."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Tpo
from confluent_kafka.admin import AdminClient
from typing_extensions import override

from penstock.common.errors import ApplicationStateError, KafkaRefusedError, StreamsError
from penstock.common.ids import Offsets, TopicPartition
from penstock.common.log import logger
from penstock.kafka.answers import begin_commit
from penstock.kafka.contracts import GroupMember, OnAssigned, OnRevoked, OtherProtocolError, SessionLostError
from penstock.kafka.group_members import members_of
from penstock.kafka.missing_topics import MissingTopics
from penstock.kafka.settings import (
    MISSING_TOPIC,
    REFUSED_FOR_GOOD,
    RETRIABLE,
    UNREACHABLE,
    admin_settings,
    as_streams_error,
    client_configuration,
    error_text,
    is_fenced,
    member_settings,
)

_JOIN_PATIENCE_S = 60.0
"""Seconds after which a client that has not joined may itself be stuck (see ``fetch_watch.py``). If only a broker is
away, or the group waits for other members, another client with the same static id does no harm."""

_COMMIT_PATIENCE_S = 60.0
"""Seconds to wait for a commit: librdkafka keeps it until a broker answers, and a stuck client keeps it for ever."""
_MEMBERS_TIMEOUT_S = 3.0
"""Seconds to wait for the list of members. After that a static member joins, since another process is unlikely to
reach a broker, and an error names no members."""
_NAMED_AT_MOST = 3
"""Number of other members that an error names; a Kafka Streams in Java has one for each of its threads."""
_METADATA_BEGINS = b"CGMDv2:"
_GENERATION = struct.Struct("=i")
_CLOSE_PATIENCE_S = 10.0
"""Seconds to wait for the close of a client: it needs an answer to each commit, which may never come."""


class ConfluentGroupMember(GroupMember):
    """:class:`~penstock.kafka.contracts.GroupMember` on confluent-kafka.

    The group refuses commits from a revocation until the next assignment, because their generation has passed.
    """

    def __init__(self, bootstrap_servers: str, group: str, instance: str, overrides: Mapping[str, Any]) -> None:
        self._address = bootstrap_servers
        self._group = group
        self._instance = instance
        self._log = logger(__name__)
        with client_configuration("consumer."):
            self._client = Consumer(member_settings(bootstrap_servers, group, instance, overrides))
        self._overrides = overrides
        self._member_id = ""  # of the last session
        self._taken = False
        self._topics: list[str] = []
        self._missing = MissingTopics(bootstrap_servers)
        self._on_assigned: OnAssigned | None = None
        self._on_revoked: OnRevoked | None = None
        self._revoking = False
        self._absent_since_s: float | None = None  # None while it has a session in the group
        self._closed = False

    @override
    def subscribe(self, topics: Iterable[str], on_assigned: OnAssigned, on_revoked: OnRevoked = lambda: None) -> None:
        self._on_assigned, self._on_revoked = on_assigned, on_revoked
        self._topics = sorted(topics)
        self._missing.keep(set(self._topics))
        self._begin_absence()
        self._client.subscribe(self._topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)

    def _assigned(self, client: Consumer, partitions: list[Tpo]) -> None:
        # This member does not fetch: it has the assignment in the group, and librdkafka reads nothing.
        client.assign([])
        self._absent_since_s, self._member_id = None, client.memberid() or ""
        self._report(frozenset(TopicPartition(tp.topic, tp.partition) for tp in partitions))

    def _revoked(self, client: Consumer, partitions: list[Tpo]) -> None:
        if self._on_revoked is not None and not self._closed:
            self._revoking = True
            try:
                self._on_revoked()
            finally:
                self._revoking = False
        client.unassign()
        self._begin_absence()

    def _lost(self, client: Consumer, partitions: list[Tpo]) -> None:
        self._begin_absence()
        self._report(None)
        if self._is_taken():
            self._taken = True
            with suppress(KafkaException):  # the client has learnt of it meanwhile
                client.unsubscribe()
        client.unassign()

    def _is_taken(self) -> bool:
        """Returns True if another process is this static member now. librdkafka forgets its own member id when it has
        had no answer for the time of a session, as after its process was frozen. Then it would join like a new process,
        and fence a process that joined meanwhile."""
        try:
            # A new client: connections of an older one may have ended while the process was unresponsive.
            client = AdminClient(admin_settings(self._address, self._overrides))
            members = members_of(client, self._group, _MEMBERS_TIMEOUT_S)
        except KafkaException as error:
            what = "could not check for another process with the same static member id, joining anyway"
            self._log.warning(what, group=self._group, error=str(error))
            return False
        return any(it.instance_id == self._instance and it.member_id != self._member_id for it in members)

    def _named_members(self) -> str:
        """Returns the members of the group as the end of a sentence; empty if they cannot be listed."""
        try:
            members = members_of(
                AdminClient(admin_settings(self._address, self._overrides)), self._group, _MEMBERS_TIMEOUT_S
            )
        except KafkaException:
            return ""
        named = [f"{it.member_id} (client id {it.client}, host {it.host.removeprefix('/')})" for it in members]
        more = f" and {len(named) - _NAMED_AT_MOST} more" if len(named) > _NAMED_AT_MOST else ""
        return f": {', '.join(named[:_NAMED_AT_MOST])}{more}" if named else ""

    def _begin_absence(self) -> None:
        if self._absent_since_s is None:
            self._absent_since_s = time.monotonic()

    def _report(self, partitions: frozenset[TopicPartition] | None) -> None:
        if self._on_assigned is not None and not self._closed:
            self._on_assigned(partitions)

    @override
    def poll(self, timeout_s: float) -> None:
        """Raises ApplicationStateError when another process has taken this member's place, KafkaRefusedError when the
        group refuses this client permanently, MissingTopicError when a topic is gone and does not return,
        SessionLostError after a minute outside of the group or when fenced there, and OtherProtocolError."""
        try:
            message = self._client.poll(timeout_s)
        except KafkaException as error:
            raise (self._taken_error() if self._taken else self._as_error(error)) from error
        if self._taken:
            raise self._taken_error()
        event = message.error() if message is not None else None
        if message is not None and event is not None:
            self._refused(event, message.topic() or "")
        self._missing.check(self._client)
        if self._absent_since_s is not None and time.monotonic() - self._absent_since_s > _JOIN_PATIENCE_S:
            raise SessionLostError(f"{self._no_session()} for {_JOIN_PATIENCE_S:.0f} s: join again with a new client")

    def _refused(self, error: KafkaError, topic: str) -> None:
        if error.code() in MISSING_TOPIC:
            # librdkafka names the topic; if it does not, all topics of the member are asked for.
            for each in [topic] if topic else self._topics:
                self._missing.note(each, error.str())
            return
        if not (error.retriable() or error.code() in RETRIABLE or error.code() in UNREACHABLE):
            raise self._as_error(KafkaException(error))
        self._log.warning("retriable group error", group=self._group, error=error.str())

    @override
    def commit(self, offsets: Offsets) -> None:
        if not offsets:
            return
        if not self._client.memberid():
            raise StreamsError(f"{self._no_session()}: it is joining again")
        asked = [Tpo(*tp, committed.offset, committed.metadata) for tp, committed in offsets.items()]
        try:
            for answer in self._answers(asked):
                if answer.error is not None:
                    raise KafkaException(answer.error)
        except KafkaException as error:
            # librdkafka keeps a commit while no broker answers, and sends it without a member id if the session ends
            # meanwhile. The group, which still has our static member, takes it for a commit of an earlier process.
            if is_fenced(error.args[0]) and not self._client.memberid():
                raise SessionLostError(f"{self._no_session()}, which has fenced a commit: join again") from error
            raise self._as_error(error) from error

    def _answers(self, asked: list[Tpo]) -> list[Tpo]:
        if self._revoking:  # in another thread than that of the callback it would wait for the end of the callback
            return self._client.commit(offsets=asked, asynchronous=False) or []
        try:
            return begin_commit(self._client, asked).result(_COMMIT_PATIENCE_S)
        except TimeoutError:
            raise SessionLostError(
                f"a commit of member {self._instance!r} in group {self._group!r} has no answer after "
                f"{_COMMIT_PATIENCE_S:.0f} s: join again with a new client"
            ) from None

    def _no_session(self) -> str:
        return f"member {self._instance!r} has no session in group {self._group!r}"

    def _as_error(self, error: KafkaException) -> StreamsError:
        detail = error.args[0]
        if isinstance(detail, KafkaError) and is_fenced(detail):
            if self._absent_since_s is not None:
                # After an outage the broker also answers requests that the client sent meanwhile: of two requests to
                # join it lets the older fence the newer. The next client fences any other process that joins by this id
                # now.
                return SessionLostError(f"{self._no_session()}: it was fenced while it joined, join again")
            return self._taken_error()
        if isinstance(detail, KafkaError) and detail.code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL:
            return OtherProtocolError(
                f"group {self._group!r} has members of another protocol, most likely those of Kafka Streams in Java"
                f"{self._named_members()}"
            )
        if isinstance(detail, KafkaError) and detail.code() in REFUSED_FOR_GOOD:
            return KafkaRefusedError(
                f"Kafka refuses a request that a member of group {self._group!r} needs: {error_text(detail)}"
            )
        return as_streams_error(error, f"act as a member of group {self._group!r}", self._address)

    def _taken_error(self) -> ApplicationStateError:
        return ApplicationStateError(
            f"another process has become the static member {self._instance!r} of group {self._group!r}: "
            "the application runs elsewhere under the same application.id"
        )

    @override
    def group_metadata(self) -> bytes:
        metadata: bytes = self._client.consumer_group_metadata()
        # A group accepts offsets from a client that sends no generation, whatever members it has.
        (generation,) = _GENERATION.unpack_from(metadata, len(_METADATA_BEGINS))
        if not metadata.startswith(_METADATA_BEGINS) or generation < 0 or not self._client.memberid():
            raise StreamsError(self._no_session())
        return metadata

    @override
    def close(self) -> None:
        if not self._closed:
            self._closed = True
            closing = threading.Thread(target=self._close_client, name="close-member", daemon=True)
            closing.start()
            closing.join(_CLOSE_PATIENCE_S)

    def _close_client(self) -> None:
        try:
            self._client.close()
        except (KafkaException, RuntimeError) as error:
            self._log.warning("group member not closed cleanly", group=self._group, error=str(error))
