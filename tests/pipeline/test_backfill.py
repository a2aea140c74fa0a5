"""Backfills against a real Kafka, with Spark, and with the live application that continues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from penstock.common.config import StreamsConfig
from penstock.common.errors import ApplicationStateError, MissingTopicError, StreamsError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.admin import ConfluentAdmin
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import BEGINNING, TransactionalProducer
from penstock.kafka.internal_topics.creation import ensure_topics
from penstock.pipeline.backfill.backfill import BackfillReport, backfill
from penstock.topology.physical.topic_plan import plan_topics
from tests.cluster.conftest import LONG, WordCount
from tests.kafka.stable import until_stable
from tests.pipeline.topologies import failing
from tests.waiting import PATIENCE_S, eventually, once_ready

MakeName = Callable[[str], str]
FIRST = ["the quick brown fox", "jumps over the lazy dog", "the end"] * 50
SECOND = ["the fox is quick", "and the dog sleeps", "over and out"] * 50


@pytest.fixture
def word_count(broker: str, topic_name: MakeName, tmp_path: Path) -> WordCount:
    return WordCount(broker, topic_name("wc"), tmp_path)


def run(it: WordCount) -> BackfillReport:
    app = it.app()
    return backfill(app.topology, app.config, "local[2]")


def changelog(it: WordCount) -> dict[str, int]:
    """Returns what an application that starts now would restore."""
    partitions = [TopicPartition(f"{it.application_id}-counts-changelog", number) for number in range(2)]
    consumer = it.clients.consumer()
    ends = {p: end for p, end in consumer.fetch_end_offsets(partitions).items() if end}
    consumer.assign(dict.fromkeys(ends, BEGINNING))
    found: dict[str, int] = {}
    while any(consumer.position(p) < end for p, end in ends.items()):
        for batch in consumer.poll(1000, 0.1):
            for key, value in zip(batch.keys, batch.values, strict=True):
                assert key is not None
                assert value is not None
                found[key.decode()] = LONG.deserialize(value)
    consumer.close()
    return found


@pytest.mark.submission
@pytest.mark.usefixtures("shared_spark", "ray_cluster")
def test_half_by_backfill_and_half_live_equals_all_live(word_count: WordCount) -> None:
    word_count.send(FIRST)
    report = run(word_count)
    assert report.read == {word_count.lines: len(FIRST)}
    assert report.stages == 2
    assert report.changelog_rows == {f"{word_count.application_id}-counts-changelog": len(word_count.sent)}
    assert word_count.complete()
    word_count.send(SECOND)
    app = word_count.app(consumer_session_timeout_ms=10_000)
    app.start()
    app.wait_until_running(PATIENCE_S)
    eventually(word_count.complete, "all counts written", 120)
    assert once_ready(lambda: dict(app.store("counts").all())) == dict(word_count.sent)
    assert app.close()
    # And the other way round: a backfill continues where the application stopped.
    members = word_count.admin.group_members
    eventually(lambda: not members(word_count.application_id), "the coordinator has left the group")
    word_count.send(FIRST)
    assert run(word_count).read == {word_count.lines: len(FIRST)}
    assert word_count.complete()


@pytest.mark.long
@pytest.mark.usefixtures("shared_spark")
def test_a_backfill_that_failed_before_its_offsets_were_committed_is_run_again_and_counts_nothing_twice(
    word_count: WordCount, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: ConfluentAdmin, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        if group == word_count.application_id:
            raise StreamsError("the power is gone")
        commit(self, group, offsets)

    commit = ConfluentAdmin.commit
    for lines in (FIRST, SECOND):
        word_count.send(lines)
        with monkeypatch.context() as patched:
            patched.setattr(ConfluentAdmin, "commit", fail)
            with pytest.raises(StreamsError, match="power"):
                run(word_count)
        with pytest.raises(ApplicationStateError, match=r"count these records twice: .* run 'penstock backfill' again"):
            word_count.app().start()
        assert run(word_count).read == {word_count.lines: len(lines)}
        word_count.app().check()
        assert changelog(word_count) == dict(word_count.sent)
        assert word_count.complete()
    again = run(word_count)
    assert (again.read, again.written, again.changelog_rows) == (Counter(), {}, {})


@pytest.mark.long
@pytest.mark.usefixtures("shared_spark")
def test_exactly_once_what_is_committed_is_read_and_what_is_open_later(word_count: WordCount) -> None:
    patient = {"transaction.timeout.ms": 300_000}
    clients = ConfluentClients(word_count.broker, word_count.application_id, producer_overrides=patient)

    def lines(name: str, words: str) -> TransactionalProducer:
        producer = clients.transactional_producer(f"{word_count.application_id}-{name}")
        producer.init_transactions().result(60)
        producer.begin_transaction()
        producer.send(word_count.lines, None, words.encode(), 1_000, None, 0)
        assert producer.flush(60)
        return producer

    app = word_count.app(processing_guarantee="exactly_once_v2")
    first, aborted, left_open = lines("1", "one two"), lines("2", "never"), lines("3", "late")
    first.commit_transaction({}, b"").result(60)
    aborted.abort_transaction().result(60)
    word_count.send(["one"])
    until_readable(word_count, 2)  # "late" is there
    with closing(left_open):
        report = backfill(app.topology, app.config, "local[2]")
        assert report.read == {word_count.lines: 1}
        assert changelog(word_count) == {"one": 1, "two": 1}
        left_open.commit_transaction({}, b"").result(60)
    until_stable(word_count.clients, [TopicPartition(word_count.lines, 0)])
    report = backfill(app.topology, app.config, "local[2]")
    assert report.read == {word_count.lines: 2}
    assert changelog(word_count) == {"one": 2, "two": 1, "late": 1}
    ends = word_count.admin.high_watermarks([TopicPartition(word_count.lines, 0)])
    committed = word_count.admin.committed(word_count.application_id)
    assert {at: committed[at].offset for at in ends} == ends
    first.close()
    aborted.close()


def until_readable(it: WordCount, offset: int) -> None:
    """Waits until readers of committed records come to ``offset``, where a transaction is still open: so
    :func:`until_stable` would not end."""
    here = TopicPartition(it.lines, 0)
    clients = ConfluentClients(it.broker, it.application_id, {"isolation.level": "read_committed"})
    with closing(clients.consumer()) as consumer:
        eventually(lambda: consumer.fetch_end_offsets([here])[here] >= offset, "the transactions have ended")


def test_a_running_application_is_left_alone(word_count: WordCount) -> None:
    member = word_count.clients.group_member("coordinator")
    member.subscribe([word_count.lines], lambda assigned: None)

    def joined() -> bool:
        member.poll(0.1)
        return word_count.admin.group_members(word_count.application_id) == 1

    eventually(joined, "the member has joined")
    with pytest.raises(ApplicationStateError, match=r"its group has 1 member\. .*--leave-group"):
        run(word_count)
    member.close()


def test_records_that_wait_in_a_repartition_topic_are_not_passed_over(word_count: WordCount) -> None:
    app = word_count.app()
    ensure_topics(word_count.admin, partial(plan_topics, app.topology, app.config))
    written(word_count, f"{word_count.application_id}-counts-repartition")
    with pytest.raises(ApplicationStateError, match="1 records that the application has not processed yet"):
        run(word_count)


def test_state_without_offsets_is_not_taken_for_anything(word_count: WordCount) -> None:
    app = word_count.app()
    ensure_topics(word_count.admin, partial(plan_topics, app.topology, app.config))
    written(word_count, f"{word_count.application_id}-counts-changelog")
    with pytest.raises(ApplicationStateError, match=r"holds rows, but application .* has committed no offset"):
        run(word_count)


def written(it: WordCount, topic: str) -> None:
    producer = it.clients.producer()
    producer.send(topic, b"the", LONG.serialize(1), 1, partition=0)
    assert producer.flush(60)
    producer.close()


def test_a_missing_topic_is_named(word_count: WordCount) -> None:
    word_count.admin.delete_topics([word_count.lines])
    with pytest.raises(MissingTopicError, match=word_count.lines):
        run(word_count)


@pytest.mark.usefixtures("shared_spark")
def test_an_error_of_a_user_function_names_operator_and_record(broker: str, topic_name: MakeName) -> None:
    config = StreamsConfig.of({"application.id": topic_name("app"), "bootstrap.servers": broker})
    clients = ConfluentClients.of(config)
    lines, out = topic_name("lines"), topic_name("out")
    clients.admin().create_topics([NewTopic(lines, 2), NewTopic(out, 1)])
    producer = clients.producer()
    for line in (b"good", b"bad", b"good"):
        producer.send(lines, None, line, 1, partition=1)
    assert producer.flush(60)
    with pytest.raises(StreamsError) as raised:
        backfill(failing(lines, out), config)
    message = str(raised.value)
    assert "ProcessingError: ValueError: this line is bad" in message
    assert f"operator refuses-bad; topic {lines}, partition 1, offset 1" in message
    assert "_refuse_bad" in str(raised.value.__cause__)
    assert clients.admin().committed(config.application_id) == {}
