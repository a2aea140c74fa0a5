"""The plan that a coordinator begins with, on the fake broker."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

import penstock as ps
from penstock.actors.spec import ApplicationSpec
from penstock.cluster.coordinator_shell import first_plan as module
from penstock.cluster.coordinator_shell.first_plan import first_plan
from penstock.common.config import StreamsConfig
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.log import logger
from penstock.common.topics import NewTopic
from penstock.kafka.internal_topics.known_topics import LostTopicError
from penstock.testing.fake_broker import FakeBroker
from penstock.testing.fake_clients import FakeAdmin, FakeClients

CHANGELOG = "app-counts-changelog"


def counting() -> ApplicationSpec:
    builder = ps.StreamsBuilder()
    text = ps.Serdes.string()
    builder.stream("in", ps.Consumed.with_(text, text)).group_by_key().count(ps.Materialized.as_("counts"))
    return ApplicationSpec(builder.build(), StreamsConfig.of({"application.id": "app"}))


def begin(broker: FakeBroker, restarted: bool) -> None:
    asyncio.run(first_plan(counting(), FakeClients("app", broker), restarted, logger(__name__)))


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    """A broker of an application that has run and committed."""
    monkeypatch.setattr(module, "_BROKER_AGAIN_S", 0.0)
    broker = FakeBroker()
    broker.create_topic(NewTopic("in", 1))
    begin(broker, restarted=False)
    FakeClients("app", broker).admin().commit("app", {TopicPartition("in", 0): CommittedOffset(7)})
    return broker


@pytest.mark.parametrize("restarted", [False, True])
def test_a_coordinator_looks_again_for_a_topic_that_the_broker_does_not_list_yet(
    broker: FakeBroker, restarted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = 3
    listed = FakeAdmin.topics

    def topics(admin: FakeAdmin) -> dict[str, int]:
        nonlocal late
        late -= 1
        return {name: count for name, count in listed(admin).items() if late < 0 or name != CHANGELOG}

    monkeypatch.setattr(FakeAdmin, "topics", topics)
    with capture_logs() as lines:
        begin(broker, restarted=restarted)
    assert "waiting for internal topics that the broker does not list" in {line["event"] for line in lines}
    assert late < 0


@pytest.mark.parametrize("restarted", [False, True])
def test_a_changelog_that_stays_away_is_refused(
    broker: FakeBroker, restarted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LISTED_WITHIN_S", 0.0)
    broker.delete_topic(CHANGELOG)
    with pytest.raises(LostTopicError, match=f"internal topic '{CHANGELOG}' is gone"):
        begin(broker, restarted)
