"""The configuration: Kafka Streams' keys, plus the few that Ray needs.

Keys that begin with ``consumer.``, ``producer.``, ``admin.`` or ``topic.`` are passed, without the prefix, to the
clients (librdkafka's names) or to the configuration of internal topics. Security is configured once for all clients,
without a prefix: ``security.protocol``, ``sasl.*`` and ``ssl.*``. Keys that begin with ``object.store.`` are settings
of object storage, by the names of its client (obstore). The settings of a schema registry have Confluent's names:
``schema.registry.url``, ``auto.register.schemas`` and others (docs/SCHEMA_REGISTRY.md).
"""

from __future__ import annotations

import difflib
import tempfile
from collections.abc import Collection, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, ValidationError, ValidationInfo, field_validator

from penstock.common.errors import ConfigError
from penstock.common.extractors import FailOnInvalidTimestamp
from penstock.common.handlers import (
    DefaultProductionExceptionHandler,
    DeserializationExceptionHandler,
    LogAndFail,
    ProcessingExceptionHandler,
    ProductionExceptionHandler,
)
from penstock.common.secrets import Entries
from penstock.common.serdes import Serde
from penstock.common.shown import shown_with_type
from penstock.common.time import to_ms

CLIENTS = ("consumer.", "producer.", "admin.")
OBJECT_STORE = "object.store."
SCHEMA_REGISTRY = (
    "schema.registry.", "basic.auth.", "bearer.auth.", "auto.register.schemas", "use.latest.version",
    "normalize.schemas", "subject.name.strategy", "key.subject.name.strategy", "value.subject.name.strategy",
)  # fmt: skip
PREFIXES = (*CLIENTS, "topic.", OBJECT_STORE)
_ALIASES = {
    "sasl.mechanism": "sasl.mechanisms"
}  # of librdkafka's: one of two names, so that one entry replaces another
_SECURITY = ("security.", "sasl.", "ssl.", "enable.ssl.certificate.verification", "enable.sasl.oauthbearer.")
# Kafka Streams has three kinds of consumer. Here the one consumer of a stream actor reads, restores and joins.
_ONE_CONSUMER = ("main.consumer.", "restore.consumer.", "global.consumer.")
_MEASURED = "all metrics are always recorded, over the last half minute: docs/METRICS.md"
# Keys of Kafka Streams that penstock replaces by something else.
_ELSEWHERE = {
    "metrics.recording.level": _MEASURED,
    "metrics.num.samples": _MEASURED,
    "metrics.sample.window.ms": _MEASURED,
    "metric.reporters": "/metrics and Ray's endpoint are for Prometheus, KafkaStreams.metrics() for the rest",
    "enable.metrics.push": "/metrics and Ray's endpoint are for Prometheus; no metrics are sent to brokers",
    "auto.offset.reset": "penstock sets it for each topic: Consumed.with_(..., offset_reset='latest')",
    "num.stream.threads": "a stream actor takes a thread's place: the Ray cluster's CPUs determine their number, or "
    "'tasks.per.actor', or 'min.stream.actors' and 'max.stream.actors'",
    "default.dsl.store": "set it for each table: Materialized.as_(...).with_store_type(StoreType.IN_MEMORY)",
    "dsl.store.suppliers.class": "set it for each table: Materialized.as_(...).with_store_type(StoreType.IN_MEMORY)",
    "rack.aware.assignment.strategy": "only standbys are placed by rack: 'rack.aware.assignment.tags'",
    "probing.rebalance.interval.ms": "a task moves as soon as its standby has caught up, without another rebalance",
    "task.assignor.class": "there are no assignors of a program's own yet: docs/NOT_YET.md",
    "task.timeout.ms": "there is no such limit: a task waits for its broker however long that is away",
    "rocksdb.config.setter": "RocksDB's options are fixed: 'statestore.memory.max.bytes' bounds the memory of stores",
    "uncaught.exception.handler": "call KafkaStreams.set_uncaught_exception_handler()",
    "group.protocol": "the coordinator alone is the group's member, and it assigns the tasks",
}
_NODE_LABELS = "the value is a label of Ray's node, and 'rack.aware.assignment.tags' names the labels: docs/STANDBYS.md"
# Java passes these to its clients without a prefix. Here each client has its own entries, by librdkafka's names.
_CLIENT_KEYS = {
    "acks": "producer.", "batch.size": "producer.", "compression.type": "producer.", "linger.ms": "producer.",
    "heartbeat.interval.ms": "consumer.", "max.poll.interval.ms": "consumer.", "session.timeout.ms": "consumer.",
}  # fmt: skip
_HANDLERS: dict[str, type[Any]] = {
    "deserialization_exception_handler": DeserializationExceptionHandler,
    "processing_exception_handler": ProcessingExceptionHandler,
    "production_exception_handler": ProductionExceptionHandler,
}
_CLIENT_FAMILIES = {"fetch.": "consumer.", "socket.": "", "client.": ""}
OPTIMIZATIONS = frozenset({"reuse.ktable.source.topics", "merge.repartition.topics", "single.store.self.join"})


def is_security_key(key: object) -> bool:
    """Returns True if a key is about access to Kafka: Kafka Streams passes such keys to all clients."""
    return str(key).startswith(_SECURITY)


def optimizations(value: object) -> frozenset[str]:
    """Returns the optimisations that ``topology.optimization`` turns on: ``none``, ``all`` or names with commas.

    Raises ValueError for an unknown one.
    """
    given = value if isinstance(value, frozenset) else str(value).split(",")
    names = {str(name).strip() for name in given} - {"none", ""}
    if "all" in names:
        return OPTIMIZATIONS
    if unknown := names - OPTIMIZATIONS:
        raise ValueError(f"{', '.join(sorted(unknown))}: allowed are none, all, {', '.join(sorted(OPTIMIZATIONS))}")
    return frozenset(names)


def _hint(key: str, known: Collection[str]) -> str:
    """Returns a hint for the user of an unknown key."""
    if key in _ELSEWHERE:
        return f": {_ELSEWHERE[key]}"
    if key.startswith("client.tag."):
        return f": {_NODE_LABELS}"
    family = next((each for each in _CLIENT_FAMILIES if key.startswith(each)), None)
    client = _CLIENT_KEYS.get(key) if family is None else _CLIENT_FAMILIES[family]
    if client is not None:
        prefixes = [client] if client else ["consumer.", "producer.", "admin."]
        return f": for Kafka's clients it is {', '.join(repr(prefix + key) for prefix in prefixes)}"
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; known keys: {', '.join(sorted(known))}"


_EXACTLY_ONCE_COMMIT_INTERVAL_MS = 100
"""The default under exactly once: consumers see results only when they are committed."""


_TEXTS = {
    "application.server": "one string is expected, 'host:port'",
    "bootstrap.servers": "one string is expected, with commas: 'host:port,host:port'",
}


def _wrong(key: str, kind: str, value: object) -> str | None:
    """Returns a clearer message than pydantic's; None if there is none."""
    if kind == "string_type":
        return _TEXTS.get(key, "a string is expected")
    if kind == "is_instance_of" and isinstance(value, type):
        return f"an object is expected, not its class: write {value.__name__}()"
    return None


def _for_clients(given: Mapping[str, Any]) -> Entries:
    """Returns the entries for clients, with durations in ms. Entries whose value is None are left out: the client uses
    its default."""
    clients = Entries()
    for key, value in given.items():
        if isinstance(value, timedelta):
            if not key.endswith(".ms"):
                raise ConfigError(f"configuration key {key!r}: only keys that end in '.ms' accept a timedelta")
            try:
                value = to_ms(value, "the duration")
            except ValueError as error:
                raise ConfigError(f"configuration key {key!r}: {error} (got {value!r})") from None
        if value is not None:
            clients[key] = value
    return clients


class StreamsConfig(BaseModel):
    """A checked configuration. Build it with :meth:`of`; the fields' aliases are the keys a user writes."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True, extra="forbid", populate_by_name=False)

    application_id: str = Field(alias="application.id", min_length=1, pattern=r"^[a-zA-Z0-9._-]+$")
    bootstrap_servers: str = Field(default="127.0.0.1:9092", alias="bootstrap.servers", min_length=1)
    processing_guarantee: Literal["at_least_once", "exactly_once_v2"] = Field(
        default="at_least_once", alias="processing.guarantee"
    )
    commit_interval_ms: int = Field(default=30_000, alias="commit.interval.ms", ge=1)
    state_dir: Path = Field(default=Path(tempfile.gettempdir()) / "penstock", alias="state.dir")
    state_cleanup_delay_ms: int = Field(default=600_000, alias="state.cleanup.delay.ms", ge=0)
    default_key_serde: InstanceOf[Serde[Any]] | None = Field(default=None, alias="default.key.serde")
    default_value_serde: InstanceOf[Serde[Any]] | None = Field(default=None, alias="default.value.serde")
    default_timestamp_extractor: Any = Field(
        default_factory=FailOnInvalidTimestamp, alias="default.timestamp.extractor"
    )
    deserialization_exception_handler: Any = Field(
        default_factory=LogAndFail, alias="deserialization.exception.handler"
    )
    processing_exception_handler: Any = Field(default_factory=LogAndFail, alias="processing.exception.handler")
    processing_exception_handler_global_enabled: bool = Field(
        default=False, alias="processing.exception.handler.global.enabled"
    )
    production_exception_handler: Any = Field(
        default_factory=DefaultProductionExceptionHandler, alias="production.exception.handler"
    )
    errors_dead_letter_queue_topic_name: str | None = Field(
        default=None, alias="errors.dead.letter.queue.topic.name", min_length=1
    )
    processor_wrapper: Any = Field(default=None, alias="processor.wrapper.class")
    """A ``ProcessorWrapper`` that the topology was built with, or its class."""
    statestore_cache_max_bytes: int = Field(default=10_485_760, alias="statestore.cache.max.bytes", ge=0)
    statestore_memory_max_bytes: int | None = Field(default=None, alias="statestore.memory.max.bytes", ge=1 << 20)
    """Bytes that entries of stores may take of an actor's memory; None is five times the cache, and 48 MiB at least."""
    max_task_idle_ms: int = Field(default=0, alias="max.task.idle.ms", ge=-1)
    window_idle_advance_ms: int | None = Field(default=None, alias="window.idle.advance.ms", ge=1)
    """Milliseconds without records after which stream time continues by the wall clock; None: only records move it."""
    buffered_records_per_partition: int = Field(default=1000, alias="buffered.records.per.partition", ge=1)
    replication_factor: int = Field(default=-1, alias="replication.factor", ge=-1)
    repartition_purge_interval_ms: int = Field(default=30_000, alias="repartition.purge.interval.ms", ge=1)
    windowstore_changelog_additional_retention_ms: int = Field(
        default=86_400_000, alias="windowstore.changelog.additional.retention.ms", ge=0
    )
    ensure_explicit_internal_resource_naming: bool = Field(
        default=False, alias="ensure.explicit.internal.resource.naming"
    )
    dsl_store_format: Literal["DEFAULT", "HEADERS"] = Field(default="DEFAULT", alias="dsl.store.format")
    """The format of the operators' stores: HEADERS keeps headers (KIP-1285)."""
    topology_optimization: frozenset[str] = Field(default=frozenset(), alias="topology.optimization")
    application_server: str = Field(default="127.0.0.1:8080", alias="application.server")
    """``host:port`` where the HTTP API listens; port 0 takes a free one; empty for no HTTP."""
    application_server_ssl_certificate_location: Path | None = Field(
        default=None, alias="application.server.ssl.certificate.location"
    )
    application_server_ssl_key_location: Path | None = Field(default=None, alias="application.server.ssl.key.location")
    application_server_tokens_location: Path | None = Field(default=None, alias="application.server.tokens.location")
    application_server_max_waiting_queries: int = Field(
        default=1000, alias="application.server.max.waiting.queries", ge=1
    )
    application_server_max_ranges_per_second: int = Field(
        default=100, alias="application.server.max.ranges.per.second", ge=1
    )
    tasks_per_actor: int | None = Field(default=None, alias="tasks.per.actor", ge=1)
    """The most tasks that an actor hosts; None: one actor per CPU, at most one per task."""
    num_standby_replicas: int = Field(default=0, alias="num.standby.replicas", ge=0)
    """Number of standbys of each task, in addition to the active task."""
    max_warmup_replicas: int = Field(default=2, alias="max.warmup.replicas", ge=1)
    """Number of tasks that have a warm-up at a time: a standby at the actor to which the task is to move."""
    acceptable_recovery_lag: int = Field(default=10_000, alias="acceptable.recovery.lag", ge=0)
    """A standby that lacks no more offsets of its changelogs than this counts as caught up."""
    rack_aware_assignment_tags: tuple[str, ...] = Field(default=(), alias="rack.aware.assignment.tags", max_length=5)
    """Labels of Ray's nodes: standbys belong on nodes whose values for them differ from the active task's."""
    partitioner_mismatch: Literal["warn", "fail"] = Field(default="warn", alias="partitioner.mismatch")
    """The reaction to keys that are not in the partitions where Kafka's default partitioner would put them: a warning,
    or an error."""
    log_format: Literal["text", "json"] = Field(default="text", alias="log.format")
    log_summary_interval_ms: int = Field(default=120_000, alias="log.summary.interval.ms")
    """The interval of the log lines about the work of each stream actor; 0 or less: none."""
    """The form of penstock's log lines, except in processes in which the program configures structlog itself."""
    min_stream_actors: int | None = Field(default=None, alias="min.stream.actors", ge=1)
    max_stream_actors: int | None = Field(default=None, alias="max.stream.actors", ge=1)
    """With either of the two, the number of stream actors follows the load."""
    scaling_window_ms: int = Field(default=30_000, alias="scaling.window.ms", ge=1000)
    state_checkpoint_uri: str | None = Field(default=None, alias="state.checkpoint.uri", min_length=1)
    """The URL in object storage below which checkpoints of state are kept; None: there are none."""
    state_checkpoint_interval_ms: int = Field(default=300_000, alias="state.checkpoint.interval.ms", ge=1000)
    """Least time between two checkpoints of a task."""
    clients: Mapping[str, Any] = Field(default_factory=Entries, exclude=True)
    """The entries with a prefix, under their full keys, and those for all clients."""

    @classmethod
    def of(cls, entries: Mapping[str, Any]) -> StreamsConfig:
        """Check ``entries``. Raises ConfigError naming the key, what is wrong with it, and the nearest known key."""
        if not isinstance(entries, Mapping):
            raise TypeError(
                f"a configuration is a dict of keys, such as 'application.id', not {shown_with_type(entries)}"
            )
        known = {field.alias for field in cls.model_fields.values() if field.alias}
        passed_on = (*PREFIXES, *SCHEMA_REGISTRY)
        given = {key: each for key, each in entries.items() if str(key).startswith(passed_on) or is_security_key(key)}
        own = {key: value for key, value in entries.items() if key not in given}
        clients = _for_clients(given)
        for key in own:
            if str(key).startswith(_ONE_CONSUMER):
                name = str(key).partition("consumer.")[2]
                raise ConfigError(
                    f"configuration key {key!r}: penstock has one kind of consumer: write {'consumer.' + name!r}"
                )
            if key not in known:
                names = known | {each for each in SCHEMA_REGISTRY if not each.endswith(".")}
                raise ConfigError(f"unknown configuration key {key!r}{_hint(str(key), names)}")
        if own.get("processing.guarantee") == "exactly_once_v2":
            own.setdefault("commit.interval.ms", _EXACTLY_ONCE_COMMIT_INTERVAL_MS)
        try:
            checked = cls.model_validate(own)
        except ValidationError as error:
            first = error.errors()[0]
            key = str(first["loc"][0])
            if first["type"] == "missing":
                raise ConfigError(f"configuration key {key!r} is required") from None
            wrong = _wrong(key, first["type"], own.get(key)) or first["msg"].removeprefix("Value error, ")
            raise ConfigError(f"configuration key {key!r}: {wrong} (got {own.get(key)!r})") from None
        checked._check_stream_actors()
        # Past pydantic, which would make a plain dict of it, one that hides nothing.
        return checked.model_copy(update={"clients": clients})

    def _check_stream_actors(self) -> None:
        if self.scales and self.tasks_per_actor is not None:
            raise ConfigError(
                "configuration key 'tasks.per.actor' fixes the number of stream actors, which follows the load by "
                "'min.stream.actors' and 'max.stream.actors': give the one or the others"
            )
        least, most = self.min_stream_actors, self.max_stream_actors
        if least is not None and most is not None and least > most:
            raise ConfigError(f"configuration key 'min.stream.actors': {least} is above 'max.stream.actors' ({most})")

    @property
    def scales(self) -> bool:
        """True if the number of stream actors follows the load."""
        return self.min_stream_actors is not None or self.max_stream_actors is not None

    @property
    def entries_memory_bytes(self) -> int:
        """``statestore.memory.max.bytes``, or its default if that is None."""
        return self.statestore_memory_max_bytes or max(5 * self.statestore_cache_max_bytes, 48 << 20)

    @property
    def exception_handlers(self) -> tuple[object, ...]:
        """The handlers that decide about bad records and bad results."""
        return tuple(getattr(self, name) for name in _HANDLERS)

    def entries(self) -> dict[str, Any]:
        """Returns every key with its value, including defaults."""
        own = {field.alias: getattr(self, name) for name, field in type(self).model_fields.items() if name != "clients"}
        return Entries({key: value for key, value in own.items() if key} | dict(self.clients))

    @property
    def security_entries(self) -> dict[str, Any]:
        """The entries about access to Kafka that are for all clients."""
        return Entries((key, value) for key, value in self.clients.items() if is_security_key(key))

    @property
    def object_store_settings(self) -> Mapping[str, str]:
        """The settings of object storage, by the names of its client."""
        mine = {key[len(OBJECT_STORE) :]: each for key, each in self.clients.items() if key.startswith(OBJECT_STORE)}
        return Entries({key: str(each).lower() if isinstance(each, bool) else str(each) for key, each in mine.items()})

    @property
    def serde_settings(self) -> Mapping[str, Any]:
        """The settings of a schema registry, for serdes that use one."""
        return Entries((key, each) for key, each in self.clients.items() if key.startswith(SCHEMA_REGISTRY))

    def client_entries(self, prefix: str) -> dict[str, Any]:
        """Returns the entries with ``prefix`` (such as ``consumer.``), without it. For a client also those for all
        clients, unless it has its own."""
        mine = {key[len(prefix) :]: value for key, value in self.clients.items() if key.startswith(prefix)}
        shared = self.security_entries if prefix in CLIENTS else {}
        return Entries({_ALIASES.get(key, key): value for key, value in (shared | mine).items()})

    @field_validator("processing_guarantee", mode="before")
    @classmethod
    def _reject_removed_guarantees(cls, value: object) -> object:
        if value in ("exactly_once", "exactly_once_beta"):
            raise ValueError("Kafka 4 has removed this name: write 'exactly_once_v2'")
        return value

    @field_validator(
        "default_timestamp_extractor",
        *_HANDLERS,
    )
    @classmethod
    def _require_instances(cls, value: object, info: ValidationInfo) -> object:
        # Kafka Streams takes classes here. Without this error, the first bad record would end the application.
        if isinstance(value, type):
            raise ValueError(f"an object is expected, not its class: write {value.__name__}()")
        wanted = _HANDLERS.get(info.field_name or "")
        if wanted is not None and not isinstance(value, wanted):
            raise ValueError(
                f"an object of a class derived from {wanted.__name__} is expected, not {value!r}: docs/BAD_RECORDS.md"
            )
        if wanted is None and not callable(value):
            raise ValueError("a callable is expected")
        return value

    @field_validator("*", mode="before")
    @classmethod
    def _reject_bools(cls, value: object, info: ValidationInfo) -> object:
        switch = info.field_name is not None and cls.model_fields[info.field_name].annotation is bool
        if isinstance(value, bool) and not switch:
            raise ValueError("this key accepts neither True nor False")  # to Python they are the numbers 1 and 0
        return value

    @field_validator("*", mode="before")
    @classmethod
    def _durations_in_ms(cls, value: object, info: ValidationInfo) -> object:
        key = cls.model_fields[info.field_name].alias if info.field_name else None
        return to_ms(value, "the duration") if isinstance(value, timedelta) and key and key.endswith(".ms") else value

    @field_validator("*")
    @classmethod
    def _limit_to_63_bits(cls, value: object) -> object:
        if isinstance(value, int) and value >= 1 << 63:
            raise ValueError("too large: Kafka's numbers have 63 bits")
        return value

    @field_validator("rack_aware_assignment_tags", mode="before")
    @classmethod
    def _split_commas(cls, value: object) -> object:
        return tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value

    @field_validator("topology_optimization", mode="before")
    @classmethod
    def _optimizations(cls, value: object) -> frozenset[str]:
        return optimizations(value)
