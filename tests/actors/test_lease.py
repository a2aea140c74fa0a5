"""A stream actor writes for a limited time without hearing of its coordinator, and then waits."""

from __future__ import annotations

import math
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

import penstock as ps
from penstock.actors.loop.lease import LONGEST_S, Lease, QuestionId, lease_s
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.process.belonging import Belonging
from penstock.actors.process.stream_actor import StreamActor
from penstock.common.config import StreamsConfig
from penstock.kafka.contracts import UndeliveredError
from penstock.kafka.settings import member_settings
from tests.actors.rig import APPLICATION, STRING, Rig, count_of, producer_of, settle


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lease(clock: Clock) -> Lease:
    begun = Lease(clock)
    begun.begin(30.0)
    return begun


def test_before_the_actor_has_started_there_is_no_end(clock: Clock) -> None:
    lease = Lease(clock)
    lease.question_arrived(QuestionId(1, 1, 0))
    clock.now_s += 1_000_000
    assert not lease.is_over
    lease.begin(30.0)
    clock.now_s += 30.0
    assert lease.is_over


def test_it_ends_so_long_after_the_question_whose_answer_has_arrived(clock: Clock, lease: Lease) -> None:
    clock.now_s = 110.0
    lease.question_arrived(QuestionId(1, 1, 0))
    clock.now_s = 120.0
    lease.question_arrived(QuestionId(1, 2, 1))
    clock.now_s = 139.9
    assert not lease.is_over
    clock.now_s = 140.0
    assert lease.is_over


def test_questions_whose_answers_are_lost_do_not_make_it_longer(clock: Clock, lease: Lease) -> None:
    for number in range(1, 60):
        clock.now_s += 0.5
        lease.question_arrived(QuestionId(1, number, 0))
    assert not lease.is_over
    clock.now_s += 0.5
    lease.question_arrived(QuestionId(1, 60, 0))
    assert lease.is_over
    lease.question_arrived(QuestionId(1, 61, 60))
    assert not lease.is_over, "the coordinator has kept it, and hears it again"


def test_only_the_last_coordinator_can_make_it_longer(clock: Clock, lease: Lease) -> None:
    lease.question_arrived(QuestionId(1, 7, 6))
    clock.now_s = 125.0
    lease.question_arrived(QuestionId(2, 1, 0))
    lease.question_arrived(QuestionId(1, 8, 7))
    clock.now_s = 130.0
    assert lease.is_over
    lease.question_arrived(QuestionId(2, 2, 1))
    assert not lease.is_over


def test_a_question_that_arrives_twice_or_late_counts_from_its_first_arrival(clock: Clock, lease: Lease) -> None:
    lease.question_arrived(QuestionId(1, 1, 0))
    clock.now_s = 129.0
    lease.question_arrived(QuestionId(1, 1, 0))
    lease.question_arrived(QuestionId(1, 2, 1))
    clock.now_s = 130.0
    assert lease.is_over


def test_it_is_over_when_the_raylet_has_ended(clock: Clock) -> None:
    ended = iter([False, True])
    lease = Lease(clock, lambda: next(ended))
    lease.begin(30.0)
    assert not lease.is_over
    assert lease.is_over


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ({}, LONGEST_S),
        ({"consumer.session.timeout.ms": None}, LONGEST_S),
        ({"consumer.session.timeout.ms": 6_000}, 4.0),
        ({"consumer.session.timeout.ms": 300_000}, LONGEST_S),
        ({"processing.guarantee": "exactly_once_v2"}, math.inf),
    ],
)
def test_it_ends_before_the_session_in_the_group_does(entries: dict[str, Any], expected: float, tmp_path: Path) -> None:
    config = StreamsConfig.of({"application.id": "app", "state.dir": tmp_path, **entries})
    assert lease_s(config) == pytest.approx(expected)


@pytest.mark.parametrize("entries", [{}, {"consumer.session.timeout.ms": 6_000}])
def test_it_is_shorter_than_the_session_that_the_member_asks_kafka_for(entries: dict[str, Any], tmp_path: Path) -> None:
    config = StreamsConfig.of({"application.id": "app", "state.dir": tmp_path, **entries})
    member = member_settings("broker:1", "app", "app-1", config.client_entries("consumer."))
    assert lease_s(config) * 1000 < int(member["session.timeout.ms"])


def test_without_one_an_actor_answers_queries_and_processes_commits_and_writes_nothing(
    tmp_path: Path, clock: Clock, lease: Lease
) -> None:
    rig = Rig(tmp_path)
    rig.lease = lease
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    rig.commit(loop)
    assert rig.counts() == [("a", 1)]
    rig.write("in", ("a", "x", 2))
    settle(loop)
    clock.now_s += 30.0
    rig.write("in", ("a", "x", 3))
    rig.clock.now_ms += 100_000
    settle(loop)
    assert count_of(loop, "a") == 2
    assert rig.counts() == [("a", 1)], "what the cache holds is not written, for another actor may have the task"
    lease.begin(30.0)
    rig.commit(loop)
    rig.commit(loop)
    assert rig.counts()[-1] == ("a", 3)
    assert not loop.finished.done()


def test_the_status_shows_an_actor_without_a_lease(tmp_path: Path, clock: Clock, lease: Lease) -> None:
    rig = Rig(tmp_path)
    rig.lease = lease
    loop = rig.running()

    def reported() -> tuple[bool, int]:
        asked = loop.status()
        settle(loop)
        status = asked.result(0)
        return status.without_lease, status.lease_expirations

    assert reported() == (False, 0)
    clock.now_s += 30.0
    settle(loop)
    assert reported() == (True, 1)
    lease.begin(30.0)
    settle(loop)
    assert reported() == (False, 1)


def test_the_log_reports_that_the_lease_has_expired_and_how_long_that_lasted(
    tmp_path: Path, clock: Clock, lease: Lease
) -> None:
    rig = Rig(tmp_path)
    rig.lease = lease
    loop = rig.running()
    clock.now_s += 30.0
    with capture_logs() as logs:
        settle(loop)
        rig.clock.now_ms += 12_340
        lease.begin(30.0)
        settle(loop)
    reported = [
        (it["log_level"], it["event"].split(":")[0], it.get("waited_s")) for it in logs if "lease" in it["event"]
    ]
    assert reported == [("warning", "lease expired", None), ("info", "lease renewed", 12.3)]


def without_a_lease(tmp_path: Path, clock: Clock, lease: Lease) -> tuple[Rig, StreamLoop]:
    """Returns a loop whose lease has ended while the result of its second record was on its way to a broker."""
    rig = Rig(tmp_path, statestore_cache_max_bytes=0)
    rig.lease = lease
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    rig.commit(loop)
    producer_of(loop).most_at_once = 0  # stuck
    rig.write("in", ("a", "x", 2))
    for _ in range(20):
        loop.step()
    clock.now_s += 30.0
    settle(loop)
    producer_of(loop).most_at_once = None
    return rig, loop


def test_records_that_no_broker_has_when_it_ends_are_never_sent_and_their_sources_are_read_again(
    tmp_path: Path, clock: Clock, lease: Lease
) -> None:
    rig, loop = without_a_lease(tmp_path, clock, lease)
    settle(loop)
    assert rig.counts() == [("a", 1)], "the actor may not write"
    lease.begin(30.0)
    rig.commit(loop)
    rig.commit(loop)
    assert rig.counts() == [("a", 1), ("a", 2)]
    assert count_of(loop, "a") == 2


@pytest.mark.parametrize("order", ["stop", "suspend", "release"])
def test_an_order_that_comes_meanwhile_does_not_commit_the_source_of_results_that_were_given_up(
    order: str, tmp_path: Path, clock: Clock, lease: Lease
) -> None:
    rig, loop = without_a_lease(tmp_path, clock, lease)
    done = ordered(loop, order)
    lease.begin(30.0)
    for _ in range(100):
        if done.done():
            break
        loop.step()
    assert done.done()
    assert (rig.counts(), rig.committed()) == ([("a", 1)], 1), "the next owner processes the second record"


def test_a_loop_that_has_failed_writes_nothing_more_so_nobody_waits_for_its_lease(tmp_path: Path) -> None:
    rig = Rig(tmp_path, statestore_cache_max_bytes=0)
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    rig.commit(loop)
    producer = producer_of(loop)
    producer.most_at_once = 0  # stuck
    rig.write("in", ("a", "x", 2), ("a", "x", -1))
    for _ in range(1000):  # it gives the producer a moment, for dead letters
        settle(loop)
    assert "no valid timestamp" in (loop.finished.result(0) or "")
    producer.most_at_once = None
    producer.poll()
    assert rig.counts() == [("a", 1)]


@pytest.mark.parametrize("swallowed", [False, True])
def test_when_the_lease_ends_within_a_record_nothing_more_is_sent_and_its_source_is_read_again(
    tmp_path: Path, clock: Clock, lease: Lease, swallowed: bool
) -> None:
    loops: list[StreamLoop] = []

    class Slow(ps.Processor[str, str, str, str]):
        """Takes longer for ``slow`` than the lease lasts, the first time."""

        def init(self, context: ps.ProcessorContext[str, str]) -> None:
            self._context = context

        def process(self, record: ps.Record[str, str]) -> None:
            self._context.forward(record)
            if record.value == "slow" and clock.now_s < 130.0:
                clock.now_s += 30.0
                loops[0].standstill.end_if_over()  # in another thread, as the actor does
            try:
                self._context.forward(record.with_value("behind"))
            except UndeliveredError:
                if not swallowed:
                    raise

    builder = ps.StreamsBuilder()
    builder.stream("in", ps.Consumed.with_(STRING, STRING)).process(Slow).to("out", ps.Produced.with_(STRING, STRING))
    rig = Rig(tmp_path, builder.build())
    rig.lease = lease
    loops.append(rig.running())
    rig.write("in", ("a", "quick", 1))
    rig.commit(loops[0])
    producer_of(loops[0]).most_at_once = 0  # stuck
    rig.write("in", ("a", "slow", 2))
    settle(loops[0])
    producer_of(loops[0]).most_at_once = None
    settle(loops[0])
    assert [it.value for it in rig.broker.records("out")] == [b"quick", b"behind"], "the actor may not write"
    lease.begin(30.0)
    rig.commit(loops[0])
    rig.commit(loops[0])
    assert [it.value for it in rig.broker.records("out")] == [b"quick", b"behind", b"slow", b"behind"]
    assert not loops[0].finished.done()
    assert rig.committed() == 2


def test_a_thread_of_the_actor_looks_at_the_lease_while_its_loop_does_not_come_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock, lease: Lease
) -> None:
    class EndedError(Exception):
        """Ends the thread."""

    def sleep(seconds: float) -> None:
        clock.now_s += seconds
        if clock.now_s > 132.0:
            raise EndedError

    rig = Rig(tmp_path, statestore_cache_max_bytes=0)
    rig.lease = lease
    loop = rig.running()
    producer_of(loop).most_at_once = 0
    rig.write("in", ("a", "x", 1))
    settle(loop)
    actor = StreamActor(APPLICATION, "stream/1", b"")
    monkeypatch.setattr("penstock.actors.process.stream_actor.time.sleep", sleep)
    with pytest.raises(EndedError):
        actor._look_at_lease(loop, Belonging("stream/1", actor._log))
    with pytest.raises(UndeliveredError):
        producer_of(loop).send("out", b"a", b"x", 1, None)


def test_a_lease_that_returns_before_the_loop_comes_round_lets_the_actor_write_again(
    tmp_path: Path, clock: Clock, lease: Lease
) -> None:
    rig = Rig(tmp_path, statestore_cache_max_bytes=0)
    rig.lease = lease
    loop = rig.running()
    clock.now_s += 30.0
    loop.standstill.end_if_over()
    lease.begin(30.0)
    rig.write("in", ("a", "x", 1))
    rig.commit(loop)
    assert rig.counts() == [("a", 1)]


@pytest.mark.parametrize("order", ["stop", "suspend", "release"])
def test_an_order_does_not_commit_the_source_of_a_result_whose_refusal_the_program_has_caught(
    order: str, tmp_path: Path, clock: Clock, lease: Lease
) -> None:
    loops: list[StreamLoop] = []

    class CatchesAll(ps.Processor[str, Any, str, str]):
        """Outlasts the lease while the commit flushes the cache before it, and takes the refusal for its own error."""

        def init(self, context: ps.ProcessorContext[str, str]) -> None:
            self._context = context

        def process(self, record: ps.Record[str, Any]) -> None:
            clock.now_s += 30.0
            loops[0].standstill.end_if_over()  # in another thread, as the actor does
            with suppress(Exception):
                self._context.forward(record.with_value("result"))

    builder = ps.StreamsBuilder()
    kept: Any = ps.Materialized.as_("counts").with_caching_enabled().with_logging_disabled()
    counts: Any = builder.stream("in", ps.Consumed.with_(STRING, STRING)).group_by_key().count(kept)
    counts.to_stream().process(CatchesAll).to("out", ps.Produced.with_(STRING, STRING))
    rig = Rig(tmp_path, builder.build())
    rig.lease = lease
    loops.append(rig.running())
    rig.write("in", ("a", "x", 1))
    settle(loops[0])
    done = ordered(loops[0], order)
    for _ in range(20):
        loops[0].step()
    lease.begin(30.0)
    for _ in range(100):
        if done.done():
            break
        loops[0].step()
    assert done.done()
    assert not rig.committed(), "the next owner processes the record"


def ordered(loop: StreamLoop, order: str) -> Future[None]:
    """Gives the loop this order and returns its answer."""
    if order == "stop":
        return loop.stop()
    return loop.suspend(10**6) if order == "suspend" else loop.assign(10**6, {})
