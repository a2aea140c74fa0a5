"""The settings of penstock's librdkafka clients, and their reasons. Users override them with the prefixes
``consumer.``, ``producer.`` and ``admin.``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from penstock.common.errors import BrokerUnreachableError, ConfigError, KafkaRefusedError, StreamsError
from penstock.kafka.contracts import UnknownTopicError

REQUEST_TIMEOUT_S = 8.0
"""Seconds that one request to the broker may take: with the connection attempts before it, less than 10 s."""

# Bigger queues and fetches and a short back-off took one consumer from 157 k to 958 k records/s (2 cores).
_CONSUMER: Mapping[str, Any] = {
    "auto.offset.reset": "error",  # positions are always given; a lost one must be reported, not guessed
    "enable.partition.eof": True,  # the only sign that a position has passed transaction markers at the end
    "isolation.level": "read_uncommitted",  # as Kafka Streams under at_least_once
    "check.crcs": False,
    # Per partition; a record takes 300 B here in addition to its own bytes.
    "queued.min.messages": 45_000,
    "queued.max.messages.kbytes": 24_576,
    "max.partition.fetch.bytes": 4_194_304,
    "fetch.queue.backoff.ms": 2,
    "fetch.wait.max.ms": 100,
}
RESTORING: Mapping[str, Any] = {
    "fetch.wait.max.ms": 10,  # librdkafka does not report the markers of transactions after the last record
}
"""Further settings of a consumer that restores; users may override them."""
_PRODUCER: Mapping[str, Any] = {
    "linger.ms": 20,
    "batch.size": 1_000_000,
    # Room for the records that a commit sends at once, at 250 B each in addition to their own bytes.
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 65_536,
    "topic.metadata.propagation.max.ms": 10_000,  # an unknown topic is an error after this time
    # As Java's delivery.timeout.ms. After this time another producer replaces the client, which may be stuck (see
    # ``fetch_watch.py``): this is the only sign of it.
    "message.timeout.ms": 120_000,
    "partitioner": "murmur2_random",  # as the Java client; librdkafka's own default puts keys elsewhere
}
_TRANSACTIONS: Mapping[str, Any] = {
    "transaction.timeout.ms": 10_000,  # as Kafka Streams: an abandoned transaction holds readers up this long
    # With "rebootstrap" librdkafka 2.16 drops all brokers that it knows when none answers, but still remembers one as
    # the group's coordinator: the next commit would wait for a dropped broker for ever.
    "metadata.recovery.strategy": "none",
}
_HEARTBEAT_MS = 3_000  # Kafka's default
SESSION_TIMEOUT_MS = 45_000
"""``session.timeout.ms`` of members, if the user does not set it. As Kafka's own default."""
_MEMBER: Mapping[str, Any] = {
    "partition.assignment.strategy": "range",  # so that the inputs of a join are co-assigned
    "session.timeout.ms": SESSION_TIMEOUT_MS,
    "topic.metadata.refresh.interval.ms": 30_000,  # new partitions of a source topic are seen after this time
}
# Settings on which penstock's guarantees depend: a user's entry for one of them is an error.
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
# Settings of group membership, which have no meaning for a consumer that is not a member of the group.
_MEMBER_ONLY = frozenset({"session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms", "group.protocol"})


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
        raise ConfigError(f"configuration key 'consumer.{key}': {given!r} is not a whole number of ms") from error


def check_heartbeat(consumer: Mapping[str, Any]) -> None:
    """Raise ConfigError when the user's settings let a session end before its first heartbeat, as Java's consumer does.
    librdkafka accepts such settings, and the coordinator would lose its session repeatedly."""
    heartbeat_ms = _whole_ms(consumer, "heartbeat.interval.ms", _HEARTBEAT_MS)
    if heartbeat_ms >= (session_ms := session_timeout_ms(consumer)):
        raise ConfigError(
            f"configuration key 'consumer.heartbeat.interval.ms': {heartbeat_ms} ms, and a session ends after "
            f"session.timeout.ms = {session_ms} ms without a heartbeat: set the former to a third of the latter"
        )


def check_overrides(prefix: str, overrides: Mapping[str, Any]) -> None:
    """Raise ConfigError when ``overrides`` (without their ``prefix``) have a key that penstock must set itself."""
    for key in overrides:
        if key == "auto.offset.reset":
            raise ConfigError(
                f"configuration key {prefix + key!r}: the first offset to read is configured for each topic: "
                "Consumed.with_(…, offset_reset='latest') or Consumed.with_offset_reset_policy('latest'); "
                "without it a topic is read from its beginning"
            )
        if key in _OWNED[prefix]:
            raise ConfigError(f"configuration key {prefix + key!r}: penstock sets this itself; remove it")


def transaction_timeout_ms(producer: Mapping[str, Any]) -> int:
    """Returns the time after which a broker aborts a transaction. ``producer``: the user's settings."""
    return int(producer.get("transaction.timeout.ms", _TRANSACTIONS["transaction.timeout.ms"]))


def check_exactly_once(consumer: Mapping[str, Any], producer: Mapping[str, Any], commit_interval_ms: int) -> None:
    """Raise ConfigError when a user's settings contradict ``exactly_once_v2``."""
    if consumer.get("isolation.level", "read_committed") != "read_committed":
        raise ConfigError(
            "configuration key 'consumer.isolation.level': exactly_once_v2 reads only committed records; remove it"
        )
    timeout_ms = transaction_timeout_ms(producer)
    if timeout_ms < commit_interval_ms:
        raise ConfigError(
            f"configuration key 'producer.transaction.timeout.ms': {timeout_ms} ms, and a transaction is open for "
            f"commit.interval.ms = {commit_interval_ms} ms: raise the former above the latter, or commit more often"
        )


def _fetching(overrides: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in overrides.items() if key not in _MEMBER_ONLY}


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
    # librdkafka refuses a producer whose records may wait for longer than their transaction.
    records = {"message.timeout.ms": transactions["transaction.timeout.ms"]}
    return {**producer_settings(bootstrap_servers, {**records, **transactions}), **owned}


def admin_settings(bootstrap_servers: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings for the admin client."""
    return {**overrides, "bootstrap.servers": bootstrap_servers, **_of_all(overrides)}


_OF_ALL: Mapping[str, Any] = {
    # librdkafka logs each refused connection to standard error; the caller gets an error for those that matter.
    "log_level": 2,
    # As Java's. With librdkafka's 10,000, a client may reconnect only 15 s after a broker has returned.
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


# ---- the classes of librdkafka's errors: one table for all clients ----

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
"""Errors while a leader, a coordinator or a replica changes: the same request succeeds a little later. (Those with an
underscore are librdkafka's own: it does not know the leader of a partition, it has dropped a broker that left the
cluster, or a look-up of leaders is not finished.)"""
MISSING_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
"""Errors for a topic that does not exist, or that a broker which has just started does not know yet."""
POSITION_LOST = frozenset({KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION})
"""Errors for an offset that is not in the log."""
REFUSED_FOR_GOOD = frozenset(
    {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED,
     KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._AUTHENTICATION,
     KafkaError.UNSUPPORTED_SASL_MECHANISM, KafkaError.OFFSET_METADATA_TOO_LARGE,
     KafkaError.INVALID_COMMIT_OFFSET_SIZE, KafkaError.INVALID_GROUP_ID, KafkaError.INVALID_SESSION_TIMEOUT,
     KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE}
)  # fmt: skip
"""Errors of a group member that do not pass by waiting, as in Kafka Streams: a user must grant access, or change what
the error names."""
_FENCED = frozenset({KafkaError._FENCED, KafkaError.FENCED_INSTANCE_ID})


def is_fenced(error: KafkaError) -> bool:
    """Returns True if another process is the static member now. librdkafka may report that only in the text."""
    return error.code() in _FENCED or "fenced" in error.str().lower()


def code_of(error: KafkaException) -> int | None:
    """Returns the code of librdkafka or of a broker; None if there is none."""
    detail = error.args[0]
    return detail.code() if isinstance(detail, KafkaError) else None


def error_text(error: KafkaError) -> str:
    """Returns the text of an error with its name in Kafka."""
    return f"{error.str()} ({error.name()})"


def as_streams_error(error: KafkaException, what: str, bootstrap_servers: str) -> StreamsError:
    """Returns penstock's error for it. A BrokerUnreachableError means that the same call may succeed a little later."""
    detail = error.args[0]
    if not isinstance(detail, KafkaError):
        return StreamsError(f"cannot {what}: {detail}")
    code, message = detail.code(), error_text(detail)
    if code in UNREACHABLE:
        return BrokerUnreachableError(
            f"cannot {what}: no broker answers at {bootstrap_servers} ({detail.str()}): "
            "start it, or fix bootstrap.servers (of a command: --bootstrap-servers or PENSTOCK_BOOTSTRAP_SERVERS)"
        )
    if code in RETRIABLE:
        return BrokerUnreachableError(f"cannot {what}: the cluster at {bootstrap_servers} is not ready: {message}")
    if code in MISSING_TOPIC:
        return UnknownTopicError(
            f"cannot {what}: {message}. A broker that has just started reports this too; if it lasts, create the topic "
            "again"
        )
    if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return KafkaRefusedError(f"cannot {what}: {message}: grant this client the operation on the topic (ACLs)")
    return StreamsError(f"cannot {what}: {message}")
