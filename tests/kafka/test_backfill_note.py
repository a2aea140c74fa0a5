"""A start of the application while a backfill is half done."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

import penstock as ps
from penstock.cluster.client import starting
from penstock.cluster.client.kafka_streams import KafkaStreams
from penstock.common.errors import ApplicationStateError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.backfill_note import fingerprint, refuse_unfinished_backfill, withdraw_note, write_note
from penstock.testing.fake_broker import FakeBroker, FakeRecord
from penstock.testing.fake_clients import FakeClients

LINES = [TopicPartition("lines", 0), TopicPartition("lines", 1)]
CHANGELOG = TopicPartition("app-counts-changelog", 0)


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker()
    for topic, partitions in (("lines", 2), ("app-counts-changelog", 2)):
        made.create_topic(NewTopic(topic, partitions))
    return made


def attempt(broker: FakeBroker, rows: int) -> None:
    """Does what a backfill does until it fails: writes the note, then rows."""
    admin = FakeClients("app", broker).admin()
    ends = admin.end_offsets([CHANGELOG])
    write_note(admin, "app", ends, fingerprint(LINES, admin.committed("app")))
    append(broker, rows)


def append(broker: FakeBroker, rows: int) -> None:
    for _ in range(rows):
        broker.append(CHANGELOG.topic, FakeRecord(b"the", b"1", 0, None), CHANGELOG.partition)


def commit(broker: FakeBroker, offset: int) -> None:
    offsets = {partition: CommittedOffset(offset, "") for partition in LINES}
    broker.commit_from_outside("app", offsets)


def refused(broker: FakeBroker, sources: Iterable[TopicPartition] = tuple(LINES)) -> bool:
    try:
        refuse_unfinished_backfill(FakeClients("app", broker).admin(), "app", sources)
    except ApplicationStateError:
        return True
    return False


def test_an_application_that_was_never_backfilled_may_start(broker: FakeBroker) -> None:
    append(broker, 3)
    assert not refused(broker)


@pytest.mark.parametrize("committed", [None, 5])
def test_a_start_is_refused_while_a_changelog_has_rows_of_an_unfinished_backfill(
    broker: FakeBroker, committed: int | None
) -> None:
    append(broker, 2)
    if committed is not None:
        commit(broker, committed)
    attempt(broker, 3)
    with pytest.raises(ApplicationStateError) as raised:
        refuse_unfinished_backfill(FakeClients("app", broker).admin(), "app", LINES)
    assert "it wrote 3 rows of state to 'app-counts-changelog'" in str(raised.value)
    assert "run 'penstock backfill' again until it succeeds" in str(raised.value)


def test_the_order_of_the_sources_means_nothing(broker: FakeBroker) -> None:
    commit(broker, 5)
    attempt(broker, 3)
    assert refused(broker, reversed(LINES))


def test_a_backfill_that_failed_before_its_first_row_keeps_nobody_from_starting(broker: FakeBroker) -> None:
    append(broker, 2)
    attempt(broker, 0)
    assert not refused(broker)


def test_a_backfill_that_has_committed_its_offsets_is_over(broker: FakeBroker) -> None:
    attempt(broker, 3)
    commit(broker, 7)
    assert not refused(broker)


def test_a_backfill_that_had_nothing_to_read_is_over_too_whatever_is_written_later(broker: FakeBroker) -> None:
    commit(broker, 7)
    attempt(broker, 0)
    withdraw_note(FakeClients("app", broker).admin(), "app", {CHANGELOG: 0})
    append(broker, 3)
    assert not refused(broker)


def test_an_application_does_not_start_on_half_a_backfill(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = ps.StreamsBuilder()
    stream = builder.stream("lines", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string()))
    stream.group_by_key().count(ps.Materialized.as_("counts"))
    app = KafkaStreams(builder.build(), {"application.id": "app"})
    monkeypatch.setattr(app, "_clients", FakeClients("app", broker))
    monkeypatch.setattr(starting, "connect", lambda application_id: pytest.fail("it went on to Ray"))
    app.check()
    attempt(broker, 3)
    with pytest.raises(ApplicationStateError, match="is unfinished"):
        app.start()
