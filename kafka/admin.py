"""Topics and offsets on librdkafka's admin client."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
)
from confluent_kafka import TopicPartition as Tpo
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic as ClientNewTopic
from typing_extensions import override

from penstock.common.errors import ApplicationStateError, BrokerUnreachableError, ConfigError, StreamsError
from penstock.common.ids import CommittedOffset, Offsets, TopicPartition
from penstock.common.log import logger
from penstock.common.topics import NewTopic
from penstock.kafka.answers import begin_commit, bounded_result
from penstock.kafka.brokers import Brokers, brokers_of
from penstock.kafka.committed import committed_offsets
from penstock.kafka.contracts import DEFAULT_DELETE_RETENTION_MS, Admin
from penstock.kafka.group_members import Member, members_of
from penstock.kafka.leaders import LEADERS_OUTDATED, checked_offset, of_the_controller, of_the_leaders
from penstock.kafka.refused_connections import RefusedConnections
from penstock.kafka.settings import (
    REQUEST_TIMEOUT_S,
    RETRIABLE,
    UNREACHABLE,
    admin_settings,
    as_streams_error,
    broker_errors,
    client_configuration,
    code_of,
    consumer_settings,
)

T = TypeVar("T")
_VISIBLE_TIMEOUT_S = 30.0
_EACH_PARTITION_S = 0.1
"""Seconds more for each partition: those of a large topology take a small broker more than half a minute."""
_LOOK_AGAIN_S = 0.02
_REACH_TIMEOUT_S = 3.0
_ANSWER_PATIENCE_S = 30.0
"""Seconds without committed offsets after which the client itself may be stuck: another one is made."""
LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # untyped in the package
_WRONG_TOPIC = frozenset(
    {KafkaError.INVALID_CONFIG, KafkaError.INVALID_REPLICATION_FACTOR, KafkaError.POLICY_VIOLATION}
)
_NOT_DESCRIBED = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED})
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_HAS_MEMBERS = frozenset({KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP, KafkaError.ILLEGAL_GENERATION})


class ConfluentAdmin(Admin):
    """:class:`~penstock.kafka.contracts.Admin` on confluent-kafka."""

    def __init__(self, bootstrap_servers: str, overrides: Mapping[str, Any]) -> None:
        self._address = bootstrap_servers
        self._overrides = overrides
        self._readers: dict[str, Consumer] = {}
        self._unanswered_s: dict[str, float] = {}  # by group: the time of the first question without an answer
        self._connections = RefusedConnections(admin_settings(bootstrap_servers, overrides), bootstrap_servers)
        with client_configuration("admin."):
            self._client = AdminClient(self._connections.settings)

    @override
    def reach(self) -> None:
        with self._errors("ask for the cluster"):
            try:
                asked = self._client.describe_cluster(request_timeout=_REACH_TIMEOUT_S)
                self._connections.answer(self._client, asked, _REACH_TIMEOUT_S + 1)
            except KafkaException:
                if self._connections.refused:
                    raise
                # The controller is asked, which alone may be away. Any broker can list the topics, however many.
                self._client.list_topics(timeout=_REACH_TIMEOUT_S)

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """Like :func:`broker_errors`, but the error of a client that the broker refuses names the cause."""
        try:
            with broker_errors(what, self._address):
                yield
        except StreamsError as error:
            cause = error.__cause__
            self._client.poll(0)
            if self._connections.refused or (isinstance(cause, KafkaException) and code_of(cause) in UNREACHABLE):
                raise self._connections.explained(error, what) from cause
            raise
        self._connections.accepted_again()

    def _connect_within(self) -> float:
        """Returns the seconds that remain for a request. Asks for the cluster first if no broker has answered yet: a
        client that the brokers refuse fails at once."""
        begun = time.monotonic()
        if not self._connections.answered:
            asked = self._client.describe_cluster(request_timeout=_REACH_TIMEOUT_S)
            try:
                self._connections.answer(self._client, asked, _REACH_TIMEOUT_S)
            except KafkaException:
                if self._connections.refused:
                    raise
        return REQUEST_TIMEOUT_S - (time.monotonic() - begun)

    @override
    def topics(self, purpose: str = "list the topics") -> dict[str, int]:
        """``purpose`` completes "cannot …" in an error."""
        with self._errors(purpose):
            listed = self._client.list_topics(timeout=self._connect_within())
        return {name: len(topic.partitions) for name, topic in listed.topics.items()}

    @override
    def brokers(self) -> Brokers:
        with self._errors("list the brokers"):
            return brokers_of(self._client.list_topics(timeout=self._connect_within()))

    @override
    def create_topics(self, topics: Iterable[NewTopic]) -> None:
        wanted = {topic.name: topic for topic in topics}
        if not wanted:
            return
        self._create(wanted.values(), validate_only=False)
        self._until_visible(wanted.values())

    def _until_visible(self, created: Collection[NewTopic]) -> None:
        """Wait until the brokers list these topics, with leaders that know that they lead."""
        names = {topic.name for topic in created}
        partitions = sum(max(topic.partitions, 1) for topic in created)
        what = f"topics {', '.join(sorted(names))} are created but not visible"
        self._wait(lambda: self._led(names), what, _VISIBLE_TIMEOUT_S + partitions * _EACH_PARTITION_S)

    @override
    def try_topics(self, topics: Iterable[NewTopic]) -> None:
        self._create(list(topics), validate_only=True)

    def _create(self, topics: Collection[NewTopic], *, validate_only: bool) -> None:
        asked = [ClientNewTopic(t.name, t.partitions, t.replication_factor, config=dict(t.config)) for t in topics]
        if not asked:
            return
        with broker_errors("create topics", self._address):
            answers = self._client.create_topics(asked, request_timeout=REQUEST_TIMEOUT_S, validate_only=validate_only)
        for name, answer in answers.items():
            try:
                of_the_controller(self._client, partial(bounded_result, answer))
            except KafkaException as error:
                if code_of(error) in _WRONG_TOPIC:
                    raise ConfigError(
                        f"the brokers refuse to create topic {name!r}: {error.args[0].str()}. Change "
                        "replication.factor, the settings with the prefix 'topic.', or the store's own in the program"
                    ) from error
                if code_of(error) != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise as_streams_error(error, f"create topic {name!r}", self._address) from error

    def _led(self, names: Iterable[str]) -> bool:
        with broker_errors("list the topics", self._address):
            listed = self._client.list_topics(timeout=REQUEST_TIMEOUT_S).topics
        if not all(
            name in listed and listed[name].partitions and all(p.leader >= 0 for p in listed[name].partitions.values())
            for name in names
        ):
            return False
        # A broker may be named as leader before it knows that it is the leader. So it is asked.
        partitions = [TopicPartition(name, number) for name in names for number in listed[name].partitions]
        try:
            self.end_offsets(partitions)
        except StreamsError as error:
            if isinstance(error.__cause__, KafkaException) and code_of(error.__cause__) in LEADERS_OUTDATED:
                return False
            raise
        return True

    def _wait(self, condition: Callable[[], bool], what: str, timeout_s: float = _VISIBLE_TIMEOUT_S) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise StreamsError(f"{what} after {timeout_s:.0f} s: look at the broker's log")
            time.sleep(_LOOK_AGAIN_S)

    @override
    def delete_topics(self, names: Iterable[str]) -> None:
        """Returns when the topics are gone."""
        wanted = set(names)
        if not wanted:
            return
        with broker_errors("delete topics", self._address):
            answers = self._client.delete_topics(list(wanted), request_timeout=REQUEST_TIMEOUT_S)
        for name, answer in answers.items():
            try:
                of_the_controller(self._client, partial(bounded_result, answer))
            except KafkaException as error:
                if code_of(error) != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise as_streams_error(error, f"delete topic {name!r}", self._address) from error
        self._wait(lambda: not wanted & self.topics().keys(), f"topics {', '.join(sorted(wanted))} are still there")

    @override
    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        if not before:
            return
        asked = [Tpo(*tp, offset) for tp, offset in before.items()]

        def delete() -> None:
            answers = self._client.delete_records(asked, request_timeout=REQUEST_TIMEOUT_S)
            for answer in answers.values():
                bounded_result(answer)

        with broker_errors("delete records", self._address):
            of_the_leaders(self._client, delete)

    @override
    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._ends(partitions, IsolationLevel.READ_COMMITTED)

    @override
    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._ends(partitions, IsolationLevel.READ_UNCOMMITTED)

    def _ends(self, partitions: Iterable[TopicPartition], isolation: IsolationLevel) -> dict[TopicPartition, int]:
        asked = {Tpo(*tp): LATEST for tp in partitions}
        if not asked:
            return {}

        def ends() -> dict[TopicPartition, int]:
            answers = self._client.list_offsets(asked, isolation_level=isolation, request_timeout=REQUEST_TIMEOUT_S)
            return {
                TopicPartition(tp.topic, tp.partition): checked_offset(bounded_result(answer).offset)
                for tp, answer in answers.items()
            }

        with broker_errors("ask for end offsets", self._address):
            return of_the_leaders(self._client, ends)

    @override
    def topic_configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        asked = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in topics]
        if not asked:
            return {}
        found = {}
        with broker_errors("ask for the configuration of topics", self._address):
            for resource, answer in self._client.describe_configs(asked, request_timeout=REQUEST_TIMEOUT_S).items():
                try:
                    entries = of_the_controller(self._client, partial(bounded_result, answer))
                except KafkaException as error:
                    if code_of(error) != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                        raise
                    continue
                found[resource.name] = {name: entry.value for name, entry in entries.items()}
        return found

    @override
    def broker_configs(self) -> dict[str, str]:
        with broker_errors("ask for the configuration of a broker", self._address):
            broker = min(self._client.list_topics(timeout=REQUEST_TIMEOUT_S).brokers)
            asked = [ConfigResource(ConfigResource.Type.BROKER, str(broker))]
            (answer,) = self._client.describe_configs(asked, request_timeout=REQUEST_TIMEOUT_S).values()
            try:
                entries = bounded_result(answer)
            except KafkaException as error:
                if code_of(error) != KafkaError.CLUSTER_AUTHORIZATION_FAILED:
                    raise
                return {}
        return {name: entry.value for name, entry in entries.items()}

    @override
    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        asked = list(topics)
        if not asked:
            return {}
        found = {}
        with broker_errors("ask for the ids of topics", self._address):
            answers = self._client.describe_topics(TopicCollection(asked), request_timeout=REQUEST_TIMEOUT_S)
            for name, answer in answers.items():
                try:
                    found[name] = str(of_the_controller(self._client, partial(bounded_result, answer)).topic_id)
                except KafkaException as error:
                    if code_of(error) not in _NOT_DESCRIBED:
                        raise
        return {name: each for name, each in found.items() if each != _NO_ID}

    @override
    def delete_retention_ms(self, topics: Iterable[str]) -> dict[str, int]:
        asked = list(topics)
        configs, found = self.topic_configs(asked), {}
        for name in asked:
            if name not in configs:
                found[name] = DEFAULT_DELETE_RETENTION_MS
            elif "compact" in configs[name]["cleanup.policy"]:
                found[name] = int(configs[name]["delete.retention.ms"])
        return found

    @override
    def committed(
        self, group: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """A group that does not exist has committed nothing."""
        if partitions is None:
            partitions = {
                TopicPartition(topic, each) for topic, count in self.topics().items() for each in range(count)
            }
        asked = [Tpo(*partition) for partition in partitions]
        if not asked:
            return {}
        what = f"fetch the offsets of group {group!r}"
        try:
            answers = self._coordinated(what, lambda: self._reader_of(group).committed(asked, REQUEST_TIMEOUT_S))
            found = committed_offsets(answers, self._address)
        except BrokerUnreachableError as error:
            self._give_up_reader(group, error)
            raise
        self._unanswered_s.pop(group, None)
        return found

    def _give_up_reader(self, group: str, error: BrokerUnreachableError) -> None:
        """Drop the client of ``group`` if it has had no answer for 30 s; the next request makes a new one."""
        now_s = time.monotonic()
        if now_s - self._unanswered_s.setdefault(group, now_s) < _ANSWER_PATIENCE_S:
            return
        self._unanswered_s.pop(group, None)
        given_up = [self._readers.pop(group, None)]
        if given_up[0] is not None:
            what = "no answer about committed offsets, retrying with a new client"
            logger(__name__).info(what, group=group, error=str(error))
            # Another thread may still use it, so it ends with its last reference. A stuck client may take long to end:
            # so the last reference must not be here. Only the list holds it, and the new thread empties the list.
            threading.Thread(target=given_up.clear, name="close-reader", daemon=True).start()

    def _reader_of(self, group: str) -> Consumer:
        # The admin client's own calls may end the whole process (``group_members.py``). A request for offsets does so
        # too when the group's coordinator has just moved or still loads (librdkafka issue 5040). A consumer that never
        # joins does both safely.
        reader = self._readers.get(group)
        if reader is None:
            with client_configuration("admin."):
                reader = Consumer(consumer_settings(self._address, group, self._overrides))
            self._readers[group] = reader
        return reader

    @override
    def commit(self, group: str, offsets: Offsets) -> None:
        if not offsets:
            return
        asked = [Tpo(*tp, committed.offset, committed.metadata) for tp, committed in offsets.items()]

        def commit() -> None:
            try:
                answers = bounded_result(begin_commit(self._reader_of(group), asked))
            except KafkaException as error:
                if code_of(error) == KafkaError._TIMED_OUT:
                    del self._readers[group]  # it would still send the commit
                raise
            for tpo in answers:
                if tpo.error is not None:  # also where a broker is only becoming the group's coordinator
                    raise KafkaException(tpo.error)

        try:
            self._coordinated(f"commit offsets of group {group!r}", commit)
        except StreamsError as error:
            if isinstance(error.__cause__, KafkaException) and code_of(error.__cause__) in _HAS_MEMBERS:
                raise ApplicationStateError(
                    f"cannot commit offsets of group {group!r} from outside while it has members: stop the application"
                ) from error
            raise

    def _coordinated(self, what: str, ask: Callable[[], T]) -> T:
        """Returns the answer of a group's coordinator; asks again while a broker is only becoming the coordinator."""
        deadline = time.monotonic() + REQUEST_TIMEOUT_S
        while True:
            try:
                with broker_errors(what, self._address):
                    return ask()
            except StreamsError as error:
                cause = error.__cause__
                passes = isinstance(cause, KafkaException) and code_of(cause) in RETRIABLE
                if not passes or time.monotonic() > deadline:
                    raise
                time.sleep(_LOOK_AGAIN_S)

    @override
    def group_members(self, group: str) -> int:
        """A group that does not exist has no members."""
        return len(self.members(group))

    def members(self, group: str) -> tuple[Member, ...]:
        """Returns the members of ``group``; none if it does not exist."""
        with broker_errors(f"list the members of group {group!r}", self._address):
            return members_of(self._client, group)
