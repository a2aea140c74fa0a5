"""Keys of the configuration: their values, and the errors when one is wrong."""

from __future__ import annotations

import pickle
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from ray import cloudpickle

from penstock.common.config import OPTIMIZATIONS, PREFIXES, StreamsConfig
from penstock.common.errors import ConfigError
from penstock.common.extractors import FailOnInvalidTimestamp, LogAndSkipOnInvalidTimestamp
from penstock.common.handlers import (
    DefaultProductionExceptionHandler,
    DeserializationExceptionHandler,
    ErrorHandlerContext,
    LogAndContinue,
    LogAndFail,
    Response,
)
from penstock.common.serdes import Serdes

CALLED_PER_RECORD = [
    "default.timestamp.extractor",
    "deserialization.exception.handler",
    "processing.exception.handler",
]

HANDLERS = ["deserialization.exception.handler", "processing.exception.handler", "production.exception.handler"]

pickler: Any = cloudpickle  # Ray's has no types


def config(entries: dict[str, Any] | None = None) -> StreamsConfig:
    return StreamsConfig.of({"application.id": "app", **(entries or {})})


def value_of(key: str, checked: StreamsConfig) -> object:
    return getattr(checked, key.replace(".", "_"))


def refusal(key: str, value: object) -> str:
    with pytest.raises(ConfigError) as refused:
        config({key: value})
    return str(refused.value)


@pytest.mark.parametrize(
    ("key", "default"),
    [
        ("processing.guarantee", "at_least_once"),
        ("commit.interval.ms", 30_000),
        ("default.key.serde", None),
        ("default.value.serde", None),
        ("statestore.cache.max.bytes", 10 * 1024 * 1024),
        ("max.task.idle.ms", 0),
        ("buffered.records.per.partition", 1000),
        ("replication.factor", -1),
        ("repartition.purge.interval.ms", 30_000),
        ("windowstore.changelog.additional.retention.ms", 86_400_000),
        ("topology.optimization", frozenset()),
        ("errors.dead.letter.queue.topic.name", None),
        ("processing.exception.handler.global.enabled", False),
    ],
)
def test_the_default_is_that_of_kafka_streams(key: str, default: object) -> None:
    assert value_of(key, config()) == default


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("default.timestamp.extractor", FailOnInvalidTimestamp),
        ("deserialization.exception.handler", LogAndFail),
        ("processing.exception.handler", LogAndFail),
        ("production.exception.handler", DefaultProductionExceptionHandler),
    ],
)
def test_a_bad_record_ends_the_application_by_default_as_in_kafka_streams(key: str, kind: type) -> None:
    assert type(value_of(key, config())) is kind


@pytest.mark.parametrize(
    ("key", "default"),
    [
        ("bootstrap.servers", "127.0.0.1:9092"),
        ("application.server", "127.0.0.1:8080"),
        ("tasks.per.actor", None),
    ],
)
def test_the_default_is_penstocks_own(key: str, default: object) -> None:
    assert value_of(key, config()) == default


def test_state_is_by_default_in_the_systems_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)  # the tests have another one (tests/in_memory.py)
    assert value_of("state.dir", config()) == Path(tempfile.gettempdir()) / "penstock"


def test_only_the_application_id_is_required() -> None:
    with pytest.raises(ConfigError, match=r"^configuration key 'application\.id' is required$"):
        StreamsConfig.of({})


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("comit.interval.ms", "commit.interval.ms"),
        ("commit.interval", "commit.interval.ms"),
        ("commit_interval_ms", "commit.interval.ms"),
        ("application.ids", "application.id"),
        ("default.deserialization.exception.handler", "deserialization.exception.handler"),
        ("default.production.exception.handler", "production.exception.handler"),
        ("cache.max.bytes.buffering", "statestore.cache.max.bytes"),
        ("topology.optimisation", "topology.optimization"),
        ("auto.register.schema", "auto.register.schemas"),
    ],
)
def test_an_unknown_key_is_refused_and_the_nearest_known_one_named(key: str, near: str) -> None:
    assert refusal(key, 1) == f"unknown configuration key {key!r}; did you mean {near!r}?"


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        ("client.id", ": for Kafka's clients it is 'consumer.client.id', 'producer.client.id', 'admin.client.id'"),
        ("fetch.max.bytes", ": for Kafka's clients it is 'consumer.fetch.max.bytes'"),
        ("linger.ms", ": for Kafka's clients it is 'producer.linger.ms'"),
        ("socket.timeout.ms", "'admin.socket.timeout.ms'"),
        ("auto.offset.reset", "Consumed.with_(..., offset_reset='latest')"),
        ("num.stream.threads", "'tasks.per.actor'"),
        ("metrics.recording.level", "all metrics are always recorded"),
        ("metric.reporters", "/metrics"),
        ("rack.aware.assignment.strategy", "'rack.aware.assignment.tags'"),
        ("client.tag.zone", "'rack.aware.assignment.tags'"),
        ("probing.rebalance.interval.ms", "as soon as its standby has caught up"),
        ("task.assignor.class", "docs/NOT_YET.md"),
        ("uncaught.exception.handler", "set_uncaught_exception_handler"),
        ("group.protocol", "assigns the tasks"),
        ("task.timeout.ms", "however long"),
        ("rocksdb.config.setter", "'statestore.memory.max.bytes'"),
    ],
)
def test_a_key_that_java_would_place_elsewhere_is_reported_with_its_partition(key: str, advice: str) -> None:
    record = refusal(key, 1)
    assert advice in record
    assert "did you mean" not in record


@pytest.mark.parametrize("tags", ["zone,cluster", " zone , cluster,", ["zone", "cluster"], ("zone", "cluster")])
def test_rack_tags_are_a_list_or_as_in_java_names_with_commas(tags: object) -> None:
    config = StreamsConfig.of({"application.id": "app", "rack.aware.assignment.tags": tags})
    assert config.rack_aware_assignment_tags == ("zone", "cluster")


def test_an_empty_text_names_no_rack_tags() -> None:
    assert (
        StreamsConfig.of({"application.id": "app", "rack.aware.assignment.tags": ""}).rack_aware_assignment_tags == ()
    )


@pytest.mark.parametrize("key", ["zzz", "clients", 3, "Producer."])
def test_a_key_like_none_that_is_known_is_refused_and_all_of_them_named(key: Any) -> None:
    record = refusal(key, {})
    assert record.startswith(
        f"unknown configuration key {key!r}; known keys: acceptable.recovery.lag, application.id, "
    )
    assert record.endswith("windowstore.changelog.additional.retention.ms")


@pytest.mark.parametrize("kind", ["main.consumer.", "restore.consumer.", "global.consumer."])
def test_the_prefixes_of_kafka_streams_three_consumers_are_refused_with_the_one_there_is(kind: str) -> None:
    record = refusal(f"{kind}fetch.max.bytes", 1)
    assert record.endswith("penstock has one kind of consumer: write 'consumer.fetch.max.bytes'")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("application.id", "a"),
        ("application.id", "My_app.v2-x"),
        ("commit.interval.ms", 1),
        ("statestore.cache.max.bytes", 0),
        ("max.task.idle.ms", -1),
        ("buffered.records.per.partition", 1),
        ("replication.factor", 3),
        ("repartition.purge.interval.ms", 1),
        ("windowstore.changelog.additional.retention.ms", 0),
        ("tasks.per.actor", 1),
        ("processing.guarantee", "exactly_once_v2"),
        ("application.server", ""),
        ("default.key.serde", Serdes.long()),
    ],
)
def test_a_value_within_the_limits_is_taken_as_it_is(key: str, value: object) -> None:
    assert value_of(key, config({key: value})) is value


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("application.id", "", "at least 1 character"),
        ("application.id", "two words", "should match pattern"),
        ("application.id", "app\n", "should match pattern"),
        ("application.id", "größe", "should match pattern"),
        ("application.id", "a/b", "should match pattern"),
        ("application.id", 7, "string is expected"),
        ("application.id", None, "string is expected"),
        ("bootstrap.servers", "", "at least 1 character"),
        ("commit.interval.ms", 1 << 63, "too large: Kafka's numbers have 63 bits"),
        ("bootstrap.servers", ["a:1"], "string is expected"),
        ("processing.guarantee", "exactly_twice", "'at_least_once' or 'exactly_once_v2'"),
        ("processing.guarantee", "exactly_once", "removed this name: write 'exactly_once_v2' (got 'exactly_once')"),
        ("processing.guarantee", "exactly_once_beta", "removed this name: write 'exactly_once_v2'"),
        ("commit.interval.ms", 0, "greater than or equal to 1"),
        ("commit.interval.ms", "soon", "valid integer"),
        ("commit.interval.ms", 1.5, "valid integer"),
        ("commit.interval.ms", None, "valid integer"),
        ("commit.interval.ms", True, "neither True nor False"),
        ("tasks.per.actor", True, "neither True nor False"),
        ("statestore.cache.max.bytes", False, "neither True nor False"),
        ("state.dir", 7, "not a valid path"),
        ("default.key.serde", "string", "instance of Serde"),
        ("default.value.serde", Serdes.string, "instance of Serde"),
        ("default.value.serde", {"name": "x", "serialize": len, "deserialize": len}, "instance of Serde"),
        ("statestore.cache.max.bytes", -1, "greater than or equal to 0"),
        ("max.task.idle.ms", -2, "greater than or equal to -1"),
        ("buffered.records.per.partition", 0, "greater than or equal to 1"),
        ("replication.factor", -2, "greater than or equal to -1"),
        ("repartition.purge.interval.ms", 0, "greater than or equal to 1"),
        ("tasks.per.actor", 0, "greater than or equal to 1"),
        ("application.server", 8080, "string is expected"),
    ],
)
def test_a_value_that_is_wrong_is_named_with_its_key_and_the_reason(key: str, value: object, why: str) -> None:
    record = refusal(key, value)
    assert record.startswith(f"configuration key {key!r}: ")
    assert why in record
    assert record.endswith(f"(got {value!r})")


def test_a_number_may_come_as_text_as_from_a_properties_file() -> None:
    assert config({"commit.interval.ms": "250"}).commit_interval_ms == 250


def test_a_time_of_a_client_may_be_a_timedelta_too_and_none_leaves_the_clients_default() -> None:
    given = {"consumer.session.timeout.ms": timedelta(seconds=7), "producer.linger.ms": None}
    checked = config(given)
    assert checked.client_entries("consumer.") == {"session.timeout.ms": 7000}
    assert checked.client_entries("producer.") == {}
    assert config({"topic.segment.ms": timedelta(hours=1)}).client_entries("topic.") == {"segment.ms": 3_600_000}
    with pytest.raises(ConfigError, match=r"'consumer\.fetch\.wait\.max\.ms': the duration has a fraction"):
        config({"consumer.fetch.wait.max.ms": timedelta(microseconds=1500)})
    with pytest.raises(ConfigError, match=r"'producer\.batch\.size': only keys that end in '\.ms' accept a timedelta"):
        config({"producer.batch.size": timedelta(seconds=1)})


def test_a_time_may_be_a_timedelta_of_whole_milliseconds() -> None:
    entries = {"application.id": "app", "commit.interval.ms": timedelta(seconds=2)}
    assert StreamsConfig.of(entries).commit_interval_ms == 2000
    for wrong, why in ((timedelta(microseconds=1500), "fraction of a millisecond"), (timedelta(-1), "negative")):
        with pytest.raises(ConfigError, match=rf"'commit.interval.ms': .*{why}"):
            StreamsConfig.of({**entries, "commit.interval.ms": wrong})
    with pytest.raises(ConfigError, match=r"'num\.standby\.replicas'"):
        StreamsConfig.of({**entries, "num.standby.replicas": timedelta(seconds=1)})


def test_a_path_may_come_as_text() -> None:
    assert config({"state.dir": "/var/lib/app"}).state_dir == Path("/var/lib/app")


def test_an_extractor_may_be_a_function() -> None:
    def mine(*_: object) -> int:
        return 0

    assert config({"default.timestamp.extractor": mine}).default_timestamp_extractor is mine


@pytest.mark.parametrize("key", HANDLERS)
@pytest.mark.parametrize("value", [None, "org.apache.kafka.streams.errors.LogAndContinueExceptionHandler", print])
def test_a_handler_is_an_object_of_its_class(key: str, value: object) -> None:
    assert "an object of a class derived from " in refusal(key, value)


def test_a_handler_of_another_kind_is_refused() -> None:
    wanted = "ProductionExceptionHandler is expected"
    assert wanted in refusal("production.exception.handler", LogAndContinue())


@pytest.mark.parametrize("key", CALLED_PER_RECORD)
@pytest.mark.parametrize("kind", [LogAndContinue, LogAndSkipOnInvalidTimestamp])
def test_a_class_in_place_of_its_object_is_refused_before_the_first_bad_record(key: str, kind: type) -> None:
    record = refusal(key, kind)
    assert record.startswith(
        f"configuration key {key!r}: an object is expected, not its class: write {kind.__name__}()"
    )


@pytest.mark.parametrize("value", [None, "org.apache.kafka.streams.processor.WallclockTimestampExtractor", 1])
def test_an_object_that_cannot_be_called_is_no_extractor(value: object) -> None:
    key = "default.timestamp.extractor"
    assert refusal(key, value) == f"configuration key {key!r}: a callable is expected (got {value!r})"


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("none", frozenset()),
        ("", frozenset()),
        ("all", OPTIMIZATIONS),
        ("merge.repartition.topics", {"merge.repartition.topics"}),
        ("merge.repartition.topics, reuse.ktable.source.topics",
         {"merge.repartition.topics", "reuse.ktable.source.topics"}),
        (frozenset({"single.store.self.join"}), {"single.store.self.join"}),
    ],
)  # fmt: skip
def test_optimisations_are_none_all_or_names_with_commas(value: object, meant: object) -> None:
    assert config({"topology.optimization": value}).topology_optimization == meant


@pytest.mark.parametrize("value", ["fastest", "merge.repartition.topics,fastest", frozenset({"fastest"})])
def test_an_optimisation_that_there_is_not_is_refused_and_those_there_are_named(value: object) -> None:
    allowed = "none, all, merge.repartition.topics, reuse.ktable.source.topics, single.store.self.join"
    record = f"configuration key 'topology.optimization': fastest: allowed are {allowed} (got {value!r})"
    assert refusal("topology.optimization", value) == record


@pytest.mark.parametrize(
    "key", ["security.protocol", "sasl.username", "ssl.ca.location", "enable.ssl.certificate.verification"]
)
def test_security_keys_of_kafka_need_no_prefix_and_reach_each_client(key: str) -> None:
    given = config({key: "this"})
    assert [given.client_entries(prefix) for prefix in PREFIXES] == [{key: "this"}] * 3 + [{}, {}]
    assert given.entries()[key] == "this"


SECRETS = {
    "sasl.password": "hidden-1",
    "consumer.sasl.password": "hidden-2",
    "producer.ssl.key.password": "hidden-3",
    "ssl.key.pem": "hidden-4",
    "admin.sasl.oauthbearer.client.secret": "hidden-5",
}


@pytest.mark.parametrize("shown", [repr, str, "{!s}".format, lambda it: repr(it.entries()), lambda it: str(it.clients)])
def test_a_configuration_is_shown_without_its_secrets(shown: Any) -> None:
    given = config({**SECRETS, "sasl.username": "alice", "consumer.fetch.max.bytes": 1000})
    for copy in (given, pickle.loads(pickle.dumps(given)), pickler.loads(pickler.dumps(given))):
        record = shown(copy)
        assert "hidden" not in record
        assert record.count("****") == len(SECRETS)
        assert "alice" in record
        assert "1000" in record
    assert given.entries()["sasl.password"] == "hidden-1", "a program is given what it has written"


@pytest.mark.parametrize("prefix", PREFIXES)
def test_an_entry_with_a_prefix_passes_without_it_and_unchecked(prefix: str) -> None:
    given = config({f"{prefix}any.key": "any value", f"{prefix}other": 7})
    assert given.client_entries(prefix) == {"any.key": "any value", "other": 7}
    assert [given.client_entries(other) for other in PREFIXES if other != prefix] == [{}, {}, {}, {}]


def test_there_are_prefixes_for_the_three_clients_the_internal_topics_and_object_storage() -> None:
    assert set(PREFIXES) == {"consumer.", "producer.", "admin.", "topic.", "object.store."}


def test_settings_of_object_storage_are_texts_under_the_names_of_its_client() -> None:
    given = config(
        {"object.store.aws_secret_access_key": "hidden", "object.store.allow_http": True, "object.store.port": 1}
    )
    settings = given.object_store_settings
    assert settings == {"aws_secret_access_key": "hidden", "allow_http": "true", "port": "1"}
    assert "hidden" not in repr(settings) + repr(given)
    assert config({}).object_store_settings == {}


def test_a_prefix_counts_at_the_beginning_only() -> None:
    assert config({"topic.consumer.x": 1}).client_entries("consumer.") == {}


def test_an_entry_for_a_client_does_not_hide_one_of_penstocks_own() -> None:
    given = config({"consumer.bootstrap.servers": "other:1", "bootstrap.servers": "mine:1"})
    assert given.bootstrap_servers == "mine:1"


def test_a_checked_configuration_does_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        config().commit_interval_ms = 1


def test_the_users_mapping_may_change_afterwards() -> None:
    entries = {"application.id": "app", "consumer.a": 1}
    checked = StreamsConfig.of(entries)
    entries["consumer.a"] = 2
    assert checked.client_entries("consumer.") == {"a": 1}


class Tolerant(DeserializationExceptionHandler):
    def __init__(self, limit: int) -> None:
        self.limit = limit

    def handle_error(self, context: ErrorHandlerContext, record: object, error: Exception) -> Response:
        return Response.resume() if context.offset < self.limit else Response.fail()


def test_a_configuration_travels_whole() -> None:
    sent = config(
        {
            "commit.interval.ms": 7,
            "default.key.serde": Serdes.long(),
            "deserialization.exception.handler": Tolerant(3),
            "consumer.a": 1,
            "topology.optimization": "all",
        }
    )
    for pickling in (pickle, pickler):
        copy = pickling.loads(pickling.dumps(sent))
        assert copy.commit_interval_ms == 7
        assert copy.default_key_serde is Serdes.long()
        assert copy.deserialization_exception_handler.limit == 3
        assert copy.client_entries("consumer.") == {"a": 1}
        assert copy.topology_optimization == OPTIMIZATIONS


@pytest.mark.parametrize(
    ("entries", "memory"),
    [
        ({}, 50 << 20),
        ({"statestore.cache.max.bytes": 0}, 48 << 20),
        ({"statestore.cache.max.bytes": 100 << 20}, 500 << 20),
        ({"statestore.memory.max.bytes": 1 << 20}, 1 << 20),
    ],
)
def test_memory_for_entries_follows_the_cache_unless_it_is_given(entries: dict[str, Any], memory: int) -> None:
    assert StreamsConfig.of({"application.id": "app", **entries}).entries_memory_bytes == memory


def test_log_lines_are_text_or_json() -> None:
    assert StreamsConfig.of({"application.id": "app"}).log_format == "text"
    assert StreamsConfig.of({"application.id": "app", "log.format": "json"}).log_format == "json"
    with pytest.raises(ConfigError, match=r"'log\.format'.*'xml'"):
        StreamsConfig.of({"application.id": "app", "log.format": "xml"})
