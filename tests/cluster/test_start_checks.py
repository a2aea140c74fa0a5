"""Faults that ``check`` finds before a start."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import ray

import penstock as ps
from penstock.cluster.start_checks import check_session_timeout, check_state_dir
from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.testing.fake_broker import FakeBroker
from penstock.testing.fake_clients import FakeAdmin


def application(broker: str, tmp_path: Path, **entries: Any) -> ps.KafkaStreams:
    """A count over the topic ``checked``."""
    ConfluentClients(broker, "checked").admin().create_topics([NewTopic("checked", 1)])
    builder = ps.StreamsBuilder()
    text = ps.Serdes.string()
    builder.stream("checked", ps.Consumed.with_(text, text)).group_by_key().count(ps.Materialized.as_("counts"))
    config = {"application.id": "checked", "bootstrap.servers": broker, "state.dir": str(tmp_path), **entries}
    return ps.KafkaStreams(builder.build(), config)


def test_a_program_that_can_start_passes(broker: str, tmp_path: Path) -> None:
    app = application(broker, tmp_path, **{"consumer.session.timeout.ms": 10_000, "topic.retention.bytes": -1})
    app.check()
    assert "checked-counts-changelog" not in ConfluentClients(broker, "checked").admin().topics(), "nothing is created"


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ({"topic.cleanup.policy": "shred"}, r"refuse to create topic 'checked-counts-changelog': .*shred"),
        ({"topic.segment.bytes": "much"}, r"refuse to create topic 'checked-counts-changelog'.*prefix 'topic\.'"),
        ({"replication.factor": 3}, r"refuse to create topic 'checked-counts-changelog'.*replication\.factor"),
        ({"consumer.session.timeout.ms": 1_000}, r"'consumer\.session\.timeout\.ms': the brokers take \d+ to \d+ ms"),
    ],
    ids=["cleanup policy", "segment size", "replication factor", "session time-out"],
)
def test_settings_that_the_brokers_refuse_are_found(
    broker: str, tmp_path: Path, entries: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        application(broker, tmp_path, **entries).check()


def test_a_session_time_out_within_the_limits_passes_and_so_does_one_whose_limits_are_hidden() -> None:
    class Limits(FakeAdmin):
        def broker_configs(self) -> dict[str, str]:
            return {"group.min.session.timeout.ms": "6000", "group.max.session.timeout.ms": "1800000"}

    def config(**entries: Any) -> StreamsConfig:
        return StreamsConfig.of({"application.id": "app", **entries})

    for allowed in (6_000, "45000", 1_800_000):
        check_session_timeout(config(**{"consumer.session.timeout.ms": allowed}), Limits(FakeBroker()))
    check_session_timeout(config(), Limits(FakeBroker()))
    check_session_timeout(config(**{"consumer.session.timeout.ms": 1}), FakeAdmin(FakeBroker()))
    with pytest.raises(ConfigError, match=r"6000 to 1800000 ms .*not 1800001"):
        check_session_timeout(config(**{"consumer.session.timeout.ms": 1_800_001}), Limits(FakeBroker()))


def test_a_state_dir_that_cannot_be_written_is_found(
    broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)  # tests before this one may have left a connection
    check_state_dir(tmp_path / "not" / "there" / "yet")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match=r"state\.dir.*file' is no directory"):
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
