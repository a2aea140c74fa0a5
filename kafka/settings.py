"""Settings that penstock makes for librdkafka, and why; users override by ``consumer.``, ``producer.`` and
``admin.``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from penstock.common.errors import BrokerUnreachableError, ConfigError, StreamsError
from penstock.kafka.contracts import UnknownTopicError

REQUEST_TIMEOUT_S = 8.0
"""Time that one question to the broker may take: with the connection attempts around it this stays below 10 s."""

# Bigger queues and fetches and a short back-off took one consumer from 157 k to 958 k records/s (2 cores).
_CONSUMER: Mapping[str, Any] = {
    "auto.offset.reset": "error",  # positions are always given; one that is gone must be noticed, not guessed
    "enable.partition.eof": True,  # the only sign that a position has passed transaction markers at the end
    "isolation.level": "read_uncommitted",  # as Kafka Streams under at_least_once
    "check.crcs": False,
    # Of each partition; a record takes 300 B here beside its own bytes.
    "queued.min.messages": 45_000,
    "queued.max.messages.kbytes": 24_576,
    "max.partition.fetch.bytes": 4_194_304,
    "fetch.queue.backoff.ms": 2,
    "fetch.wait.max.ms": 100,
}
RESTORING: Mapping[str, Any] = {
    "fetch.wait.max.ms": 10,  # behind the last record there may be markers of transactions: of those nothing is said
}
"""Further settings of a consumer that restores, unless users say otherwise."""
_PRODUCER: Mapping[str, Any] = {
    "linger.ms": 20,
    "batch.size": 1_000_000,
    # What a commit sends at once may wait here, at 250 B beside each record's own bytes; then the sender waits.
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 65_536,
    "topic.metadata.propagation.max.ms": 10_000,  # after so long a topic that is not there is an error
    # As Java's delivery.timeout.ms. After so long another producer takes over: a client that sends nothing may be what
    # is stuck (``fetch_watch.py`` says how), and says no more than this.
    "message.timeout.ms": 120_000,
    "partitioner": "murmur2_random",  # as the Java client; librdkafka's own default puts keys elsewhere
}
_TRANSACTIONS: Mapping[str, Any] = {
    "transaction.timeout.ms": 10_000,  # as Kafka Streams: so long may one that nobody ends keep readers waiting
    # By "rebootstrap" librdkafka 2.16 drops all brokers that it knows when none answers, but keeps its note of the
    # group's coordinator: the next commit waits for a dropped broker for good.
    "metadata.recovery.strategy": "none",
}
_HEARTBEAT_MS = 3_000  # Kafka's default
SESSION_TIMEOUT_MS = 45_000
"""``session.timeout.ms`` of members, if the user does not set it. As Kafka's own default."""
_MEMBER: Mapping[str, Any] = {
    "partition.assignment.strategy": "range",  # so that the inputs of a join are co-assigned
    "session.timeout.ms": SESSION_TIMEOUT_MS,
    "topic.metadata.refresh.interval.ms": 30_000,  # so long do new partitions of a source topic go unnoticed
}
# What penstock's promises rest on: a user's entry for one of these is an error, not a wish.
_OWNED = {
    "consumer.": frozenset(
        {"bootstrap.servers", "group.id", "group.instance.id", "enable.auto.commit", "enable.auto.offset.store",
         "auto.offset.reset", "enable.partition.eof", "partition.assignment.strategy"}
    ),
    "producer.": frozenset(
        {"bootstrap.servers", "enable.idempotence", "acks", "partitioner", "transactional.id",
         "delivery.report.only.error", "on_delivery"}
    ),
    "admin.": frozenset({"bootstrap.servers"}),
}  # fmt: skip
# Settings of group membership that mean nothing to a consumer that is no member of the group.
_SEAT_ONLY = frozenset({"session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms", "group.protocol"})


def session_timeout_ms(consumer: Mapping[str, Any]) -> int:
    """Returns the session time-out of members in ms. ``consumer`` has the user's entries; None there means Kafka's
    default. Raises ConfigError if the entry is not a whole number."""
    return _whole_ms(consumer, "session.timeout.ms", SESSION_TIMEOUT_MS)


def _whole_ms(consumer: Mapping[str, Any], key: str, default: int) -> int:
    given = consumer.get(key)
    if given is None:
        return default
    try:
        return int(given)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"configuration key 'consumer.{key}': {given!r} is no number of ms") from error


def check_heartbeat(consumer: Mapping[str, Any]) -> None:
    """Raise ConfigError when the user's settings let a session end before its first heartbeat, as Java's consumer does.
    librdkafka accepts them, and the coordinator would lose its session again and again."""
    heartbeat_ms = _whole_ms(consumer, "heartbeat.interval.ms", _HEARTBEAT_MS)
    if heartbeat_ms >= (session_ms := session_timeout_ms(consumer)):
        raise ConfigError(
            f"configuration key 'consumer.heartbeat.interval.ms': {heartbeat_ms} ms, and a session ends after "
            f"session.timeout.ms = {session_ms} ms without a heartbeat: set the former to a third of the latter"
        )


def check_overrides(prefix: str, overrides: Mapping[str, Any]) -> None:
    """Raise ConfigError when ``overrides`` (without their ``prefix``) touch what penstock must set itself."""
    for key in overrides:
        if key == "auto.offset.reset":
            raise ConfigError(
                f"configuration key {prefix + key!r}: where reading begins is said topic by topic: "
                "Consumed.with_(…, offset_reset='latest') or Consumed.with_offset_reset_policy('latest'); "
                "without it a topic is read from its beginning"
            )
        if key in _OWNED[prefix]:
            raise ConfigError(f"configuration key {prefix + key!r}: penstock sets this itself; remove it")


def check_exactly_once(consumer: Mapping[str, Any], producer: Mapping[str, Any], commit_interval_ms: int) -> None:
    """Raise ConfigError when a user's settings contradict ``exactly_once_v2``."""
    if consumer.get("isolation.level", "read_committed") != "read_committed":
        raise ConfigError(
            "configuration key 'consumer.isolation.level': exactly_once_v2 reads what is committed; remove it"
        )
    timeout_ms = int(producer.get("transaction.timeout.ms", _TRANSACTIONS["transaction.timeout.ms"]))
    if timeout_ms < commit_interval_ms:
        raise ConfigError(
            f"configuration key 'producer.transaction.timeout.ms': {timeout_ms} ms, and a transaction is open for "
            f"commit.interval.ms = {commit_interval_ms} ms: raise the former above the latter, or commit more often"
        )


def _fetching(overrides: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in overrides.items() if key not in _SEAT_ONLY}


def consumer_settings(bootstrap_servers: str, group: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings for a consumer that reads assigned partitions and never joins ``group``."""
    owned = {"bootstrap.servers": bootstrap_servers, "group.id": group, "enable.auto.commit": False}
    return {**_CONSUMER, **_fetching(overrides), **owned, **_of_all(overrides)}


def member_settings(bootstrap_servers: str, group: str, instance: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings for the coordinator as static member of ``group``, which fetches nothing."""
    owned = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "group.instance.id": instance,
        "enable.auto.commit": False,
    }
    return {**_MEMBER, **overrides, **owned, **_of_all(overrides)}


def producer_settings(bootstrap_servers: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings for a producer that loses, repeats and reorders nothing."""
    owned = {"bootstrap.servers": bootstrap_servers, "acks": "all", "enable.idempotence": True}
    return {**_PRODUCER, **overrides, **owned, **_of_all(overrides)}


def transactional_settings(
    bootstrap_servers: str, transactional_id: str, overrides: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns settings for a producer of transactions."""
    owned = {"transactional.id": transactional_id}
    transactions = {**_TRANSACTIONS, **overrides}
    # librdkafka makes no producer whose records may wait for longer than their transaction lives.
    records = {"message.timeout.ms": transactions["transaction.timeout.ms"]}
    return {**producer_settings(bootstrap_servers, {**records, **transactions}), **owned}


def admin_settings(bootstrap_servers: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings for the admin client."""
    return {**overrides, "bootstrap.servers": bootstrap_servers, **_of_all(overrides)}


_OF_ALL: Mapping[str, Any] = {
    # librdkafka writes a line per refused connection to standard error; what matters reaches the caller as an error.
    "log_level": 2,
    # As Java's. By librdkafka's 10,000 a client may look for a broker 15 s after its return only.
    "reconnect.backoff.max.ms": 1_000,
}


def _of_all(overrides: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in _OF_ALL.items() if key not in overrides}


@contextmanager
def broker_errors(what: str, bootstrap_servers: str) -> Iterator[None]:
    """Turn librdkafka's errors inside the block into penstock's; ``what`` completes 'cannot …'."""
    try:
        yield
    except KafkaException as error:
        raise as_streams_error(error, what, bootstrap_servers) from error


@contextmanager
def client_configuration(prefix: str) -> Iterator[None]:
    """Turn librdkafka's refusal of a setting, when a client is made, into a ConfigError that names the prefix."""
    try:
        yield
    except KafkaException as error:
        detail = error.args[0]
        text = detail.str() if isinstance(detail, KafkaError) else str(detail)
        raise ConfigError(f"a configuration key with the prefix {prefix!r} is wrong: {text}") from error


# ---- the classes of librdkafka's errors: the one table that every client goes by ----

UNREACHABLE = frozenset(
    {KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE,
     KafkaError._WAIT_COORD, KafkaError._TIMED_OUT_QUEUE, KafkaError.REQUEST_TIMED_OUT, KafkaError.NETWORK_EXCEPTION}
)  # fmt: skip
"""Errors that mean that no broker answers."""
RETRIABLE = frozenset(
    {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE,
     KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_CONTROLLER,
     KafkaError.BROKER_NOT_AVAILABLE, KafkaError.REPLICA_NOT_AVAILABLE, KafkaError.NOT_ENOUGH_REPLICAS,
     KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.FENCED_LEADER_EPOCH,
     KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.KAFKA_STORAGE_ERROR, KafkaError.UNSTABLE_OFFSET_COMMIT,
     KafkaError.THROTTLING_QUOTA_EXCEEDED, KafkaError._NOENT, KafkaError._DESTROY_BROKER, KafkaError._WAIT_CACHE,
     KafkaError._OUTDATED, KafkaError._RETRY, KafkaError._PARTIAL}
)  # fmt: skip
"""A leader, a coordinator or a replica changes: the same request succeeds a little later. (Those with an underscore are
librdkafka's words for a partition whose leader it does not know, a broker that it has let go since the cluster named it
no more, and a look-up of leaders that is not at its end.)"""
MISSING_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
"""The topic does not exist, or a broker that has just started has not heard of it yet."""
POSITION_LOST = frozenset({KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION})
"""The log does not have the offset that was to be read."""
REFUSED_FOR_GOOD = frozenset(
    {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED,
     KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._AUTHENTICATION,
     KafkaError.UNSUPPORTED_SASL_MECHANISM, KafkaError.OFFSET_METADATA_TOO_LARGE,
     KafkaError.INVALID_COMMIT_OFFSET_SIZE, KafkaError.INVALID_GROUP_ID, KafkaError.INVALID_SESSION_TIMEOUT,
     KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE}
)  # fmt: skip
"""Errors of a member of the group that no waiting fixes, as in Kafka Streams: someone must allow it, or change what the
error names."""
_FENCED = frozenset({KafkaError._FENCED, KafkaError.FENCED_INSTANCE_ID})


def is_fenced(error: KafkaError) -> bool:
    """Returns True if another process is the static member now: librdkafka reports that by ``_FATAL`` and its text."""
    return error.code() in _FENCED or "fenced" in error.str().lower()


def code_of(error: KafkaException) -> int | None:
    """The code of what librdkafka or a broker says; None when it says none."""
    detail = error.args[0]
    return detail.code() if isinstance(detail, KafkaError) else None


def as_streams_error(error: KafkaException, what: str, bootstrap_servers: str) -> StreamsError:
    """The error of ours that says the same. BrokerUnreachableError means: the same call may succeed a little later."""
    detail = error.args[0]
    if not isinstance(detail, KafkaError):
        return StreamsError(f"cannot {what}: {detail}")
    code, said = detail.code(), f"{detail.str()} ({detail.name()})"
    if code in UNREACHABLE:
        return BrokerUnreachableError(
            f"cannot {what}: no broker answers at {bootstrap_servers} ({detail.str()}): "
            "start it, or fix bootstrap.servers (of a command: --bootstrap-servers or PENSTOCK_BOOTSTRAP_SERVERS)"
        )
    if code in RETRIABLE:
        return BrokerUnreachableError(f"cannot {what}: the cluster at {bootstrap_servers} is not ready: {said}")
    if code in MISSING_TOPIC:
        return UnknownTopicError(
            f"cannot {what}: {said}. A broker that has just started says so too; if it lasts, create the topic again"
        )
    return StreamsError(f"cannot {what}: {said}")
