"""A record that cannot be written names the operator that has made it, and the record that it was made of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.actors.task_host.refused_records import RefusedRecords
from penstock.common.config import StreamsConfig
from penstock.common.topics import NewTopic
from penstock.kafka.contracts import RefusedRecord
from penstock.testing.fake_broker import MAX_RECORD_BYTES, FakeBroker
from penstock.testing.fake_producers import FakeProducer
from tests.actors.rig import APPLICATION, STRING, Rig, settle


def enlarging(state_dir: Path, times: int) -> Rig:
    """Each record ``times`` as large, to ``out``; and in a store."""
    builder = ps.StreamsBuilder()
    large = builder.stream("in", ps.Consumed.with_(STRING, STRING)).map_values(lambda value: value * times)
    large.to("out", ps.Produced.with_(STRING, STRING).with_name("large"))
    large.to_table(ps.Materialized.as_("kept").with_key_serde(STRING).with_value_serde(STRING))
    rig = Rig(state_dir, builder.build(), partitions=1, commit_interval_ms=1000)
    rig.clients.admin().create_topics([NewTopic(f"{APPLICATION}-kept-changelog", 1)])
    return rig


def end_of(rig: Rig) -> str:
    loop = rig.running()
    rig.write("in", ("small", "", 1), ("k", "x", 2), partition=0)
    rig.commit(loop)
    return loop.finished.result() or ""


def test_a_record_that_the_client_finds_too_large_names_the_operator_and_the_input(tmp_path: Path) -> None:
    reported = end_of(enlarging(tmp_path, MAX_RECORD_BYTES + 1))
    assert "too large" in reported
    assert "[operator large; topic in, partition 0, offset 1; key b'k']" in reported


@pytest.mark.parametrize(
    ("topic", "writer"), [("out", "operator large"), (f"{APPLICATION}-kept-changelog", "operator store kept")]
)
def test_a_record_that_the_broker_refuses_is_reported_with_its_writer_and_offset_range(
    topic: str, writer: str, tmp_path: Path
) -> None:
    rig = enlarging(tmp_path, 2000)
    rig.broker._configs[topic] = {"max.message.bytes": "1000"}
    loop = rig.running()
    rig.write("in", ("small", "", 1), partition=0)
    settle(loop)
    rig.commit(loop)
    rig.write("in", ("k", "x", 2), partition=0)
    settle(loop)
    rig.commit(loop)
    reported = loop.finished.result() or ""
    assert f"the record cannot be written to topic '{topic}'" in reported
    assert "it came from an input record after the last commit: in-0 from offset 1 on" in reported
    assert writer in reported


# ---- with a handler that decides ----

GUARANTEES = ["at_least_once", "exactly_once_v2"]


class Deciding(ps.ProductionExceptionHandler):
    """Answers ``answer``, and writes a letter for what it drops. It keeps what it was asked about."""

    def __init__(self, answer: str = "resume") -> None:
        self.answer = answer
        self.seen: list[tuple[ps.ErrorHandlerContext, ps.ProducerRecord[Any, Any], Exception]] = []

    def handle_error(
        self, context: ps.ErrorHandlerContext, record: ps.ProducerRecord[Any, Any], error: Exception
    ) -> ps.Response:
        self.seen.append((context, record, error))
        if self.answer == "resume":
            return ps.Response.resume([ps.ProducerRecord("letters", context.source_raw_key, context.source_raw_value)])
        return ps.Response.retry() if self.answer == "retry" else ps.Response.fail()


def deciding(state_dir: Path, handler: Deciding, guarantee: str, times: int = 2000) -> Rig:
    builder = ps.StreamsBuilder()
    large = builder.stream("in", ps.Consumed.with_(STRING, STRING)).map_values(lambda value: value * times)
    large.to("out", ps.Produced.with_(STRING, STRING).with_name("large"))
    settings: dict[str, Any] = {"processing_guarantee": guarantee, "production_exception_handler": handler}
    rig = Rig(state_dir, builder.build(), commit_interval_ms=1000, **settings)
    rig.clients.admin().create_topics([NewTopic("letters", 1)])
    rig.broker._configs["out"] = {"max.message.bytes": "1000"}
    return rig


def values(rig: Rig, topic: str) -> list[str]:
    return [(record.value or b"").decode() for record in rig.broker.records(topic)]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_handler_drops_each_record_that_the_broker_refuses_and_knows_its_input(
    guarantee: str, tmp_path: Path
) -> None:
    handler = Deciding()
    rig = deciding(tmp_path, handler, guarantee)
    loop = rig.running()
    rig.write("in", ("a", "", 1), ("b", "x", 2), ("c", "", 3), ("d", "yy", 4), ("e", "", 5), partition=0)
    for _ in range(5):
        rig.clock.now_ms += 6000
        settle(loop)
    assert not loop.finished.done()
    assert rig.committed() == 5
    assert [record.key for record in rig.broker.records("out")][-1] == b"e"
    assert set(values(rig, "letters")) == {"x", "yy"}
    places = {(context.topic, context.offset, context.processor_node_id) for context, _, _ in handler.seen}
    assert places == {("in", 1, "large"), ("in", 3, "large")}
    context, record, error = handler.seen[-1]
    assert (record.topic, record.key, record.value, record.timestamp) == ("out", b"d", b"yy" * 2000, 4)
    assert (context.source_raw_key, context.source_raw_value) == (b"d", b"yy")
    assert isinstance(error, ps.RecordRefusedError)
    if guarantee == "exactly_once_v2":
        assert values(rig, "letters") == ["x", "yy"]
        assert [record.key for record in rig.broker.records("out")] == [b"a", b"c", b"e"]


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("answer", ["fail", "retry"])
def test_a_handler_that_fails_names_the_input_record(answer: str, guarantee: str, tmp_path: Path) -> None:
    rig = deciding(tmp_path, Deciding(answer), guarantee)
    loop = rig.running()
    rig.write("in", ("a", "", 1), ("b", "x", 2), partition=0)
    for _ in range(3):
        rig.clock.now_ms += 6000
        settle(loop)
    reported = loop.finished.result() or ""
    assert "[operator large; topic in, partition 0, offset 1; key b'b']" in reported
    assert ("answered RETRY: that counts as FAIL" in reported) == (answer == "retry")
    assert rig.committed() in (None, 0, 1)


def test_a_result_that_the_client_finds_too_large_goes_to_the_handler_at_once(tmp_path: Path) -> None:
    handler = Deciding()
    rig = deciding(tmp_path, handler, "exactly_once_v2", times=MAX_RECORD_BYTES + 1)
    loop = rig.running()
    rig.write("in", ("a", "", 1), ("b", "x", 2), ("c", "", 3), partition=0)
    rig.commit(loop)
    assert ([record.key for record in rig.broker.records("out")], values(rig, "letters")) == ([b"a", b"c"], ["x"])
    assert loop._hosted.aborted == 0


def test_a_changelog_is_never_left_without_a_record(tmp_path: Path) -> None:
    handler = Deciding()
    rig = enlarging(tmp_path, 2000)
    config = rig.spec.config.model_copy(update={"production_exception_handler": handler})
    rig.spec = replace(rig.spec, config=config)
    rig.broker._configs[f"{APPLICATION}-kept-changelog"] = {"max.message.bytes": "1000"}
    loop = rig.running()
    rig.write("in", ("k", "x", 2), partition=0)
    rig.commit(loop)
    assert "operator store kept" in (loop.finished.result() or "")
    assert handler.seen == []


def test_a_letter_that_is_refused_ends_the_application_in_words(tmp_path: Path) -> None:
    rig = deciding(tmp_path, Deciding(), "at_least_once")
    rig.broker._configs["letters"] = {"max.message.bytes": "10"}
    loop = rig.running()
    rig.write("in", ("b", "x" * 100, 2), partition=0)
    for _ in range(5):
        rig.clock.now_ms += 6000
        settle(loop)
    reported = loop.finished.result() or ""
    assert "Its dead letter cannot be written: " in reported
    assert "[operator large; topic in, partition 0, offset 0; key b'b']" in reported
    assert rig.committed() in (None, 0)


def test_records_of_one_refused_batch_are_sent_alone_to_find_the_guilty_ones(tmp_path: Path) -> None:
    clock = [0.0]
    handler: dict[str, Any] = {"application.id": "app", "production.exception.handler": Deciding()}
    refused = RefusedRecords(StreamsConfig.of(handler), lambda: clock[0])
    error = ps.RecordRefusedError("too large", topic="out")
    error.late = True
    broker = FakeBroker()
    broker.create_topic(NewTopic("out", 1))
    broker._configs["out"] = {"max.message.bytes": "1000"}
    producer = FakeProducer(broker)
    assert refused.around(producer) is producer
    batch = [RefusedRecord("out", 0, b"k", value) for value in (b"innocent", b"x" * 2000)]
    assert refused.going_back(error, batch, []) is not None
    sending = refused.around(producer)
    sending.send("out", b"k", b"innocent", 1)
    assert len(broker.records("out")) == 1, "it was waited for"
    with pytest.raises(ps.RecordRefusedError) as late:
        sending.send("out", b"k", b"x" * 2000, 1)
    assert late.value.late
    assert refused.going_back(late.value, producer.take_refused(), []) is not None
    assert producer.give_up(0)
    with pytest.raises(ps.RecordRefusedError) as at_once:
        sending.send("out", b"k", b"x" * 2000, 1)
    assert not at_once.value.late
    clock[0] = 61.0  # the limit of the topic may have been raised
    sending.send("out", b"k", b"x" * 2000, 1)


def test_without_progress_the_tasks_do_not_go_back_for_ever(tmp_path: Path) -> None:
    handler: dict[str, Any] = {"application.id": "app", "production.exception.handler": Deciding()}
    refused = RefusedRecords(StreamsConfig.of(handler), lambda: 0.0)
    error = ps.RecordRefusedError("too large", topic="out")
    error.late = True
    answers = [refused.going_back(error, [RefusedRecord("out", 0, b"k", b"%d" % n)], []) for n in range(30)]
    assert [answer is not None for answer in answers] == [True] * 20 + [False] * 10


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("order", ["stop", "revoke"])
def test_a_refusal_in_the_last_commit_of_a_task_is_decided_by_its_next_owner(
    order: str, guarantee: str, tmp_path: Path
) -> None:
    handler = Deciding()
    rig = deciding(tmp_path, handler, guarantee)
    loop = rig.running()
    rig.write("in", ("a", "", 1), ("b", "x", 2), ("c", "", 3), partition=0)
    loop._fetch()
    loop._process(rig.clock.wall_ms())
    done = loop.stop() if order == "stop" else rig.assign(loop, 2)
    settle(loop)
    assert done.done()
    assert done.exception() is None
    assert rig.committed() in (None, 0)
    loop = rig.running(epoch=3, slot=2)
    for _ in range(3):
        rig.clock.now_ms += 6000
        settle(loop)
    assert rig.committed() == 3
    assert set(values(rig, "letters")) == {"x"}
