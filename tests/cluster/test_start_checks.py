"""Faults that ``check`` finds before a start."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import ray

import penstock as ps
from penstock.cluster.client import start_checks
from penstock.cluster.client.start_checks import (
    check_checkpoints,
    check_session_timeout,
    check_state_dir,
    check_topics,
)
from penstock.common.config import StreamsConfig
from penstock.common.errors import (
    BrokerUnreachableError,
    ConfigError,
    InternalTopicError,
    MissingTopicError,
    ObjectStoreError,
)
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.internal_topics.known_topics import note_topics
from penstock.objects.memory import MemoryObjects
from penstock.objects.storage import ObjectLocation
from penstock.testing.fake_broker import FakeBroker
from penstock.testing.fake_clients import FakeAdmin


class YoungBroker(FakeAdmin):
    """The admin client of a broker that has just started: it lists ``first``, and all topics afterwards."""

    def __init__(self, broker: FakeBroker, *first: dict[str, int]) -> None:
        super().__init__(broker)
        self._first = list(first)

    def topics(self) -> dict[str, int]:
        return self._first.pop(0) if self._first else super().topics()


CHANGELOG = "checked-counts-changelog"


@pytest.fixture
def noted() -> FakeBroker:
    """A broker at which the application ``checked`` has worked."""
    broker = FakeBroker()
    for topic in ("checked", CHANGELOG):
        broker.create_topic(NewTopic(topic, 1))
    admin, source = FakeAdmin(broker), TopicPartition("checked", 0)
    note_topics(admin, "checked", [CHANGELOG], [source])
    admin.commit("checked", {source: CommittedOffset(7)})
    return broker


def application(broker: str, tmp_path: Path, **entries: Any) -> ps.KafkaStreams:
    """A count over the topic ``checked``, which is created."""
    ConfluentClients(broker, "checked").admin().create_topics([NewTopic("checked", 1)])
    return program(broker, tmp_path, **entries)


def program(broker: str, tmp_path: Path, **entries: Any) -> ps.KafkaStreams:
    """A count over the topic ``checked``."""
    builder = ps.StreamsBuilder()
    text = ps.Serdes.string()
    builder.stream("checked", ps.Consumed.with_(text, text)).group_by_key().count(ps.Materialized.as_("counts"))
    config = {"application.id": "checked", "bootstrap.servers": broker, "state.dir": str(tmp_path), **entries}
    return ps.KafkaStreams(builder.build(), config)


def test_a_registry_in_memory_is_for_tests_alone(tmp_path: Path) -> None:
    app = program("127.0.0.1:1", tmp_path, **{"schema.registry.url": "mock://shop"})
    with pytest.raises(
        ConfigError, match=r"'mock://shop', a registry in the memory of each process: .* TopologyTestDriver"
    ):
        app.check()


def test_a_program_that_can_start_passes(broker: str, tmp_path: Path) -> None:
    app = application(broker, tmp_path, **{"consumer.session.timeout.ms": 10_000, "topic.retention.bytes": -1})
    app.check()
    assert "checked-counts-changelog" not in ConfluentClients(broker, "checked").admin().topics(), "nothing is created"


@pytest.mark.parametrize(
    ("entries", "reported"),
    [
        ({"topic.cleanup.policy": "shred"}, r"refuse to create topic 'checked-counts-changelog': .*shred"),
        ({"topic.segment.bytes": "much"}, r"refuse to create topic 'checked-counts-changelog'.*prefix 'topic\.'"),
        ({"replication.factor": 3}, r"refuse to create topic 'checked-counts-changelog'.*replication\.factor"),
        (
            {"consumer.session.timeout.ms": 1_000, "consumer.heartbeat.interval.ms": 300},
            r"'consumer\.session\.timeout\.ms': the brokers accept \d+ to \d+ ms",
        ),
    ],
    ids=["cleanup policy", "segment size", "replication factor", "session time-out"],
)
def test_settings_that_the_brokers_refuse_are_found(
    broker: str, tmp_path: Path, entries: dict[str, Any], reported: str
) -> None:
    with pytest.raises(ConfigError, match=reported):
        application(broker, tmp_path, **entries).check()


@pytest.mark.parametrize(
    ("first", "error"),
    [
        ({"checked": 1}, InternalTopicError),
        ({"checked": 0, CHANGELOG: 1}, BrokerUnreachableError),
        ({"checked": 1, CHANGELOG: 0}, BrokerUnreachableError),
    ],
    ids=["an internal topic is not listed", "a source topic has no partitions", "a changelog has no partitions"],
)
def test_a_broker_that_has_just_started_gets_time_to_list_the_topics(
    noted: FakeBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: dict[str, int],
    error: type[Exception],
) -> None:
    spec = program("fake:1", tmp_path)._spec
    monkeypatch.setattr(start_checks, "_LIST_AGAIN_S", 0.0)
    check_topics(spec, YoungBroker(noted, first, first))
    monkeypatch.setattr(start_checks, "LISTED_WITHIN_S", 0.0)
    with pytest.raises(error):
        check_topics(spec, YoungBroker(noted, first))


def test_a_source_topic_that_does_not_exist_is_reported_at_once(noted: FakeBroker, tmp_path: Path) -> None:
    noted.delete_topic("checked")
    with pytest.raises(MissingTopicError, match="'checked' \\(read\\)"):
        check_topics(program("fake:1", tmp_path)._spec, FakeAdmin(noted))


def test_a_session_time_out_within_the_limits_passes_and_so_does_one_whose_limits_are_hidden() -> None:
    class Limits(FakeAdmin):
        def broker_configs(self) -> dict[str, str]:
            return {"group.min.session.timeout.ms": "6000", "group.max.session.timeout.ms": "1800000"}

    def config(**entries: Any) -> StreamsConfig:
        return StreamsConfig.of({"application.id": "app", **entries})

    for allowed in (6_000, "45000", 1_800_000, None):
        check_session_timeout(config(**{"consumer.session.timeout.ms": allowed}), Limits(FakeBroker()))
    check_session_timeout(config(), Limits(FakeBroker()))
    check_session_timeout(config(**{"consumer.session.timeout.ms": 1}), FakeAdmin(FakeBroker()))
    with pytest.raises(ConfigError, match=r"'consumer\.session\.timeout\.ms': 'soon' is not a whole number of ms"):
        check_session_timeout(config(**{"consumer.session.timeout.ms": "soon"}), Limits(FakeBroker()))
    with pytest.raises(ConfigError, match=r"6000 to 1800000 ms .*not 1800001"):
        check_session_timeout(config(**{"consumer.session.timeout.ms": 1_800_001}), Limits(FakeBroker()))


def test_a_state_dir_that_cannot_be_written_is_found(
    broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)  # tests before this one may have left a connection
    check_state_dir(tmp_path / "not" / "there" / "yet")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match=r"state\.dir.*file' is not a directory"):
        application(broker, tmp_path / "file" / "state").check()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ConfigError, match=r"state\.dir.*read-only, or belongs to another user"):
        check_state_dir(tmp_path / "other")


def test_a_state_dir_on_the_machines_of_another_cluster_is_not_looked_at(
    broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.7:6379")
    (tmp_path / "file").write_text("in the way")
    application(broker, tmp_path / "file" / "state").check()


def checkpoints_at(uri: str, **entries: Any) -> StreamsConfig:
    return StreamsConfig.of({"application.id": "checked", "state.checkpoint.uri": uri, **entries})


def test_storage_of_checkpoints_that_can_be_written_is_accepted_and_left_empty(tmp_path: Path) -> None:
    check_checkpoints(StreamsConfig.of({"application.id": "checked"}))
    check_checkpoints(checkpoints_at(str(tmp_path / "objects")))
    assert [path for path in (tmp_path / "objects").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("objects", "'objects' is a relative path"),
        ("ftp://server/objects", "penstock knows a path and the schemes"),
        ("file://server/objects", "a local folder is file:///folder"),
    ],
)
def test_a_url_that_names_no_storage_is_reported(uri: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"configuration key 'state.checkpoint.uri'.*{why}"):
        check_checkpoints(checkpoints_at(uri))


def test_storage_without_conditional_writes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Overwriting(MemoryObjects):
        def create(self, name: str, content: bytes) -> None:
            self.put(name, content)

    monkeypatch.setattr(ObjectLocation, "open", lambda self: Overwriting())
    with pytest.raises(ObjectStoreError, match=r"'state.checkpoint.uri'.*overwrites an object.*leave the key out"):
        check_checkpoints(checkpoints_at("s3://bucket"))


def test_a_setting_that_the_client_does_not_know_is_named() -> None:
    with pytest.raises(ConfigError, match=r"aws_regio\b.*begin with 'object.store.'"):
        check_checkpoints(checkpoints_at("s3://bucket", **{"object.store.aws_regio": "x"}))
