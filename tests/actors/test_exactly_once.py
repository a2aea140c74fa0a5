"""``exactly_once_v2``: whatever befalls an actor, a reader of committed records sees each record's effect once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from structlog.testing import capture_logs

import penstock as ps
from penstock.actors.exactly_once import transactional_id
from penstock.actors.messages import TaskState
from penstock.actors.orders import Stop
from penstock.actors.stream_actor import StreamActor
from penstock.common.errors import BrokerUnreachableError, StateStoreLockedError
from penstock.common.ids import CommittedOffset, TaskId, TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.contracts import TransactionAbortedError
from penstock.tasks.state_manager import StateManager
from penstock.testing.fake_clients import FakeConsumer
from penstock.testing.fake_producers import FakeTransactionalProducer
from tests.actors.rig import APPLICATION, CHANGELOG, LONG, STRING, Rig, count_of, settle, states

TASK = TaskId(0, 0)
EXACTLY: dict[str, Any] = {"processing_guarantee": "exactly_once_v2"}


def counting(store: Any, caching: bool) -> ps.Topology:
    """Counts in ``counts`` and doubles in ``doubled``, which is kept by another kind of store."""
    builder = ps.StreamsBuilder()
    kept: Any = ps.Materialized.as_(store)
    kept = kept.with_caching_enabled() if caching else kept.with_caching_disabled()
    counts = builder.stream("in", ps.Consumed.with_(STRING, STRING)).group_by_key().count(kept)
    doubled: Any = ps.Materialized.as_("doubled").with_value_serde(LONG).with_caching_disabled()
    counts.map_values(lambda value: 2 * value, doubled).to_stream().to("out", ps.Produced.with_(STRING, LONG))
    return builder.build()


SHAPES = {
    "cached": lambda: counting("counts", True),
    "uncached": lambda: counting("counts", False),
    "in memory": lambda: counting(ps.Stores.in_memory_key_value_store("counts"), False),
}


def application(tmp_path: Path, shape: str = "uncached", **config: Any) -> Rig:
    rig = Rig(tmp_path / "0", SHAPES[shape](), commit_interval_ms=1000, **EXACTLY, **config)
    rig.clients.admin().create_topics([NewTopic(f"{APPLICATION}-doubled-changelog", rig.partitions)])
    return rig


def test_nothing_is_seen_before_the_commit_and_all_of_it_then(tmp_path: Path) -> None:
    rig = application(tmp_path)
    loop = rig.running()
    rig.write("in", ("a", "x", 1), ("b", "x", 2))
    settle(loop)
    assert count_of(loop, "a") == 1
    assert count_of(loop, "a", committed=True) is None
    assert rig.counts() == rig.counts(CHANGELOG) == []
    assert rig.committed() is None
    assert len(rig.broker.uncommitted_records("out")) == 2
    rig.commit(loop)
    assert rig.counts() == [("a", 2), ("b", 2)]
    assert rig.counts(CHANGELOG) == [("a", 1), ("b", 1)]
    assert rig.committed() == 2
    assert count_of(loop, "a", committed=True) == 1


def test_an_actor_asks_the_coordinator_before_it_reads_where_to_go_on_and_when_it_goes_back(tmp_path: Path) -> None:
    rig = application(tmp_path)
    rig.coordinator.hold()
    loop = rig.loop()
    rig.assign(loop, 1, TASK)
    settle(loop)
    assert states(loop) == {TASK: TaskState.CREATED}
    rig.coordinator.release()
    settle(loop)
    for _ in range(3):
        rig.write("in", ("a", "x", 1))
        rig.commit(loop)
    rig.assign(loop, 2, TASK)
    settle(loop)
    assert [request.epoch for request in rig.coordinator.requests] == [1]
    rig.coordinator.join()
    rig.write("in", ("a", "x", 1))
    rig.commit(loop)
    assert [request.epoch for request in rig.coordinator.requests] == [1, 2]
    rig.commit(loop)
    assert rig.counts() == [("a", 2), ("a", 4), ("a", 6), ("a", 8)]


@pytest.mark.parametrize("shape", list(SHAPES))
def test_a_commit_as_a_member_that_has_lost_its_seat_goes_back_and_comes_again(tmp_path: Path, shape: str) -> None:
    rig = application(tmp_path, shape)
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    rig.commit(loop)
    rig.coordinator.join()  # restarted: what the actor was told holds no more
    rig.write("in", ("a", "x", 2))
    rig.commit(loop)
    rig.commit(loop)
    assert rig.counts() == [("a", 2), ("a", 4)]
    assert rig.counts(CHANGELOG) == [("a", 1), ("a", 2)]
    assert len(rig.broker.uncommitted_records("out")) == 3, "the second was written twice, once in vain"
    assert count_of(loop, "a") == 2
    status = loop.status()
    settle(loop)
    assert status.result().aborted_transactions == 1


def test_going_back_wipes_no_state_and_restores_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = application(tmp_path, "in memory")
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    rig.commit(loop)
    rows = loop._tasks[TASK].state_manager.store("counts").context.committed
    monkeypatch.setattr(StateManager, "restore", lambda *_: pytest.fail("something is restored"))
    rig.coordinator.join()
    rig.write("in", ("a", "x", 2))
    rig.commit(loop)
    assert loop._tasks[TASK].state_manager.store("counts").context.committed is rows
    rig.commit(loop)
    assert rig.counts() == [("a", 2), ("a", 4)]


DAY_MS = 86_400_000


@pytest.mark.parametrize("restarted", [False, True])
def test_stores_of_a_task_that_had_nothing_to_do_for_days_are_kept(tmp_path: Path, restarted: bool) -> None:
    """A marker stands behind the last record of each changelog: that is no deletion they may have missed."""
    rig = application(tmp_path)
    rig.broker.delete_topic(CHANGELOG)
    rig.clients.admin().create_topics([NewTopic(CHANGELOG, 1, config={"cleanup.policy": "compact"})])
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    rig.commit(loop)
    rig.broker.delete_records(ps.TopicPartition(CHANGELOG, 0), 1)  # a store that is restored has nothing
    rig.clock.now_ms += 2 * DAY_MS
    settle(loop)
    if restarted:
        rig.stop(loop)
        loop = rig.running()
    else:
        rig.coordinator.join()
    rig.write("in", ("a", "x", 2))
    rig.commit(loop)
    rig.commit(loop)
    assert rig.counts() == [("a", 2), ("a", 4)]


def test_a_transaction_whose_end_nobody_heard_of_counts_once(tmp_path: Path) -> None:
    rig = application(tmp_path)
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    rig.broker.loses_answers = True
    rig.clock.now_ms += 1001
    loop.step()
    settle(loop)
    rig.broker.loses_answers = False
    assert rig.counts() == [("a", 2)], "Kafka had it"
    assert count_of(loop, "a", committed=True) == 1, "restored from the changelog"
    rig.write("in", ("a", "x", 2))
    rig.commit(loop)
    assert rig.counts() == [("a", 2), ("a", 4)]


@pytest.mark.parametrize("call", ["commit_transaction", "abort_transaction", "init_transactions"])
def test_a_call_that_never_returns_is_given_up_and_its_client_left_alone_until_it_does(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka may wait for ever while it looks for a coordinator, whatever timeout it was given."""
    rig = application(tmp_path)
    loop = rig.running()
    stuck: Future[None] = Future()
    held: list[FakeTransactionalProducer] = []
    closed: list[FakeTransactionalProducer] = []
    true_call, close = getattr(FakeTransactionalProducer, call), FakeTransactionalProducer.close

    def never_returning(self: FakeTransactionalProducer, *given: Any) -> Future[None]:
        monkeypatch.setattr(FakeTransactionalProducer, call, true_call)
        held.append(self)
        return stuck

    def closing(self: FakeTransactionalProducer) -> None:
        closed.append(self)
        close(self)

    monkeypatch.setattr(FakeTransactionalProducer, call, never_returning)
    monkeypatch.setattr(FakeTransactionalProducer, "close", closing)
    rig.write("in", ("a", "x", 1))
    settle(loop)
    if call == "abort_transaction":
        rig.coordinator.join()  # as somebody else the actor may not commit: it aborts
    if call == "init_transactions":
        rig.broker.expire_transactions()  # the producer is spent: another one takes the id
    rig.commit(loop)
    rig.clock.now_ms += int(FakeTransactionalProducer.answers_within_s * 1000) - 5000
    settle(loop)
    assert rig.counts() == [], "so long it may take, and it is not over"
    rig.clock.now_ms += 10_000
    settle(loop)
    rig.commit(loop)
    rig.commit(loop)
    assert rig.counts() == [("a", 2)]
    assert held[0] not in closed, "a client that is in use must not be destroyed"
    stuck.set_result(None)
    assert held[0] in closed
    rig.write("in", ("a", "x", 2))
    rig.commit(loop)
    assert rig.counts() == [("a", 2), ("a", 4)]


def test_a_transaction_that_the_broker_has_given_up_comes_again(tmp_path: Path) -> None:
    rig = application(tmp_path)
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    settle(loop)
    rig.broker.expire_transactions()
    rig.commit(loop)
    rig.commit(loop)
    assert rig.counts() == [("a", 2)]


def test_a_refused_commit_drops_all_tasks_for_their_records_stand_in_one_transaction(tmp_path: Path) -> None:
    rig = application(tmp_path, partitions=2)
    loop = rig.running()
    rig.write("in", ("a", "x", 1), partition=0)
    settle(loop)
    rig.coordinator.join()
    rig.coordinator.refusal = "another has partition 0"
    rig.commit(loop)
    assert states(loop) == {}
    rig.coordinator.refusal = ""
    rig.assign(loop, 2, TaskId(0, 0), TaskId(0, 1))
    settle(loop)
    rig.commit(loop)
    assert rig.counts() == [("a", 2)]


def test_a_transaction_that_cannot_be_begun_is_aborted_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = application(tmp_path)
    begin, failing = FakeTransactionalProducer.begin_transaction, [True, False, True, True]

    def begin_transaction(self: FakeTransactionalProducer) -> None:
        if failing and failing.pop(0):
            raise TransactionAbortedError("fenced", producer_is_spent=True)
        begin(self)

    monkeypatch.setattr(FakeTransactionalProducer, "begin_transaction", begin_transaction)
    loop = rig.running()
    for number in range(1, 4):
        rig.write("in", ("a", "x", number))
        rig.commit(loop)
        rig.clock.now_ms += 10_000
        settle(loop)
    assert not failing
    assert rig.counts() == [("a", 2), ("a", 4), ("a", 6)]


def test_an_actor_that_ends_while_it_takes_its_id_anew_leaves_the_producer_alone_that_it_gave_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = application(tmp_path)
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    settle(loop)
    rig.broker.expire_transactions()
    rig.broker.down = True
    rig.clock.now_ms += 1001
    for _ in range(20):
        loop.step()
    monkeypatch.setattr(FakeTransactionalProducer, "abort_transaction", lambda _: pytest.fail("it is closed"))
    with capture_logs() as logs:
        loop._fail(ValueError("anything"))
    assert loop.finished.done()
    assert [log["event"] for log in logs] == ["stream loop failed"]


def test_when_a_task_fails_nothing_is_committed_for_the_others(tmp_path: Path) -> None:
    builder = ps.StreamsBuilder()

    def fail_on_poison(value: str) -> str:
        if value == "poison":
            raise ValueError("bad")
        return value

    stream = builder.stream("in", ps.Consumed.with_(STRING, STRING))
    stream.map_values(fail_on_poison).to("out", ps.Produced.with_(STRING, STRING))
    rig = Rig(tmp_path, builder.build(), partitions=2, commit_interval_ms=1000, **EXACTLY)
    loop = rig.running()
    rig.write("in", ("a", "good", 1), partition=0)
    settle(loop)
    rig.write("in", ("b", "poison", 1), partition=1)
    settle(loop)
    assert "ValueError: bad" in str(loop.finished.result())
    assert rig.broker.records("out") == []
    assert rig.committed(0) is None
    assert rig.broker.log(ps.TopicPartition("out", 0)).stable_end == rig.broker.log(ps.TopicPartition("out", 0)).end


def test_a_zombie_that_wakes_up_writes_nothing(tmp_path: Path) -> None:
    rig = application(tmp_path)
    zombie = rig.running()
    rig.write("in", ("a", "x", 1))
    settle(zombie)  # processed, not committed
    rig.broker.init_producer(transactional_id(APPLICATION, "", 1))  # the coordinator fences it
    there = rig.on_another_node(tmp_path / "1")
    successor = there.loop(slot=2)
    there.assign(successor, 2, TASK)
    settle(successor)
    rig.commit(successor)
    assert rig.counts() == [("a", 2)]
    rig.coordinator.refusal = "actor stream/1 is no longer part of the application"
    rig.write("in", ("b", "x", 2))
    rig.commit(zombie)
    rig.commit(zombie)
    assert states(zombie) == {}
    rig.coordinator.refusal = ""
    rig.commit(successor)
    assert rig.counts() == [("a", 2), ("b", 2)]


def test_a_zombie_that_is_refused_leaves_its_id_to_whoever_has_it_now_until_it_is_wanted_again(
    tmp_path: Path,
) -> None:
    rig = application(tmp_path)
    zombie = rig.running()
    rig.write("in", ("a", "x", 1))
    settle(zombie)
    name = transactional_id(APPLICATION, "", 1)
    rig.broker.init_producer(name)
    epoch = rig.broker._producers[name][0]
    rig.coordinator.refusal = "actor stream/1 is no longer part of the application"
    for _ in range(5):
        rig.commit(zombie)
    assert states(zombie) == {}
    assert rig.broker._producers[name][0] == epoch
    assert not zombie.finished.done()
    rig.coordinator.refusal = ""
    rig.assign(zombie, 2, TASK)
    settle(zombie)
    rig.commit(zombie)
    assert rig.broker._producers[name][0] == epoch + 1
    assert rig.counts() == [("a", 2)]


def test_a_zombie_that_is_refused_opens_no_standby_until_it_is_wanted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = application(tmp_path, partitions=2)
    zombie = rig.running(TASK)
    wanted, kept = ({TaskId(0, n): frozenset({TopicPartition("in", n)})} for n in (0, 1))
    with monkeypatch.context() as patch:
        locked = StateStoreLockedError("another actor has it")
        patch.setattr("penstock.actors.standbys.open_standby_task", Mock(side_effect=locked))
        zombie.assign(2, wanted, kept)
        settle(zombie)
    rig.broker.init_producer(transactional_id(APPLICATION, "", 1))
    rig.coordinator.refusal = "actor stream/1 is no longer part of the application"
    rig.write("in", ("a", "x", 1), partition=0)
    for _ in range(40):
        rig.commit(zombie)
    assert not zombie.finished.done(), zombie.finished.result()
    assert zombie._standbys.by_id == {}
    rig.coordinator.refusal = ""
    zombie.assign(3, wanted, kept)
    settle(zombie)
    assert states(zombie) == {TASK: TaskState.RUNNING}
    assert zombie._standbys.by_id.keys() == kept.keys()


def test_a_zombie_that_finds_an_old_assignment_when_it_wakes_up_drops_all_without_an_error(tmp_path: Path) -> None:
    rig = application(tmp_path, partitions=2)
    zombie = rig.running(TASK)
    rig.write("in", ("a", "x", 1), partition=0)
    settle(zombie)
    rig.broker.init_producer(transactional_id(APPLICATION, "", 1))
    rig.coordinator.refusal = "actor stream/1 is no longer part of the application"
    taken = rig.assign(zombie, 2, TaskId(0, 1))
    settle(zombie)
    assert taken.result(0) is None
    assert not zombie.finished.done(), zombie.finished.result()
    assert states(zombie) == {}
    assert rig.counts() == []


def test_no_task_is_said_to_be_released_while_its_last_commit_is_in_doubt(tmp_path: Path) -> None:
    """Whoever gets it would go on from offsets that may still change."""
    rig = application(tmp_path)
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    settle(loop)
    rig.broker.loses_answers = True
    rig.coordinator.refusal = "it was that of an earlier actor by the name of stream/1"
    doubts: list[bool] = []
    loop.assign(2, {}).add_done_callback(lambda _: doubts.append(loop._guarantee.in_doubt))
    settle(loop)
    assert doubts == [False]


def test_one_that_is_being_fenced_waits_for_what_comes_of_it(tmp_path: Path) -> None:
    """The coordinator does not answer before that."""
    rig = application(tmp_path)
    zombie = rig.running()
    rig.write("in", ("a", "x", 1))
    settle(zombie)
    name = transactional_id(APPLICATION, "", 1)
    rig.broker.init_producer(name)
    epoch = rig.broker._producers[name][0]
    rig.coordinator.hold()
    rig.commit(zombie)
    assert rig.broker._producers[name][0] == epoch
    rig.stop(zombie)
    assert zombie.finished.done(), "a stop is not held up"


@pytest.mark.parametrize("heard", [True, False])
def test_a_stop_says_when_its_last_commit_is_in_doubt(tmp_path: Path, heard: bool) -> None:
    rig = application(tmp_path)
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    settle(loop)
    rig.broker.loses_answers = not heard
    rig.stop(loop)
    actor = StreamActor(APPLICATION, "stream/1", b"")
    actor._loop = loop
    assert asyncio.run(actor.tell(Stop())) is not heard
    assert asyncio.run(actor.wait()).in_doubt is not heard


def test_tasks_that_go_back_while_a_topic_of_theirs_is_gone_hold_up_no_assignment_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = application(tmp_path, partitions=2)
    loop = rig.running()
    ends = FakeConsumer.fetch_end_offsets

    def gone(self: FakeConsumer, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        if TopicPartition("in", 1) in (asked := set(partitions)):
            raise BrokerUnreachableError("unknown topic or partition: one that has just started says so, too")
        return ends(self, asked)

    monkeypatch.setattr(FakeConsumer, "fetch_end_offsets", gone)
    rig.write("in", ("a", "x", 1), partition=0)
    settle(loop)
    rig.coordinator.join()
    rig.commit(loop)
    rig.clock.now_ms += 1_000_000
    settle(loop)
    assert set(states(loop).values()) == {TaskState.CREATED}, "it waits"
    rig.assign(loop, 2, TASK)
    settle(loop)
    assert states(loop) == {TASK: TaskState.RUNNING}
    rig.commit(loop)
    assert rig.counts() == [("a", 2)]


class Ticker(ps.Processor[str, str, str, str]):
    """Forwards a record by the wall clock."""

    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        context.schedule(
            1000,
            ps.PunctuationType.WALL_CLOCK_TIME,
            lambda now_ms: context.forward(ps.Record("tick", "x", now_ms)),
        )

    def process(self, record: ps.Record[str, str]) -> None:
        """It only ticks."""


def processing(tmp_path: Path, processor: type[ps.Processor[str, str, str, str]], **config: Any) -> Rig:
    builder = ps.StreamsBuilder()
    processed = builder.stream("in", ps.Consumed.with_(STRING, STRING)).process(processor)
    processed.to("out", ps.Produced.with_(STRING, STRING))
    return Rig(tmp_path, builder.build(), commit_interval_ms=1000, **EXACTLY, **config)


def test_a_task_without_records_commits_where_it_begins_so_that_the_group_looks_at_the_member(tmp_path: Path) -> None:
    rig = processing(tmp_path, Ticker)
    loop = rig.running()
    rig.commit(loop)
    rig.commit(loop)
    assert rig.committed() == 0
    ticks = len(rig.broker.records("out"))
    assert ticks == 2
    rig.coordinator.join()  # restarted, it does not know the actor
    rig.coordinator.refusal = "actor stream/1 is no longer part of the application"
    rig.commit(loop)
    assert len(rig.broker.records("out")) == ticks
    assert states(loop) == {}


@pytest.mark.parametrize("aborted", [1, 2, 3, 5])
def test_an_abort_while_processors_are_initialised_leaves_no_task_behind(tmp_path: Path, aborted: int) -> None:
    class Fenced(ps.Processor[str, str, str, str]):
        """What it sends first is refused, as of a producer that another has fenced."""

        inits = 0

        def init(self, context: ps.ProcessorContext[str, str]) -> None:
            self.context = context
            Fenced.inits += 1
            if Fenced.inits <= aborted:
                raise TransactionAbortedError("fenced", producer_is_spent=True)

        def process(self, record: ps.Record[str, str]) -> None:
            self.context.forward(record)

    rig = processing(tmp_path, Fenced, partitions=2)
    loop = rig.loop()
    rig.assign(loop, 1, TaskId(0, 0), TaskId(0, 1))
    for _ in range(10):
        rig.clock.now_ms += 10_000
        settle(loop)
    assert not loop.finished.done(), loop.finished.result()
    assert states(loop) == dict.fromkeys([TaskId(0, 0), TaskId(0, 1)], TaskState.RUNNING)
    rig.write("in", ("a", "x", 1), partition=0)
    rig.write("in", ("b", "x", 1), partition=1)
    rig.commit(loop)
    assert len(rig.broker.records("out")) == 2


def test_what_a_processor_sends_when_it_is_initialised_is_committed_though_no_record_comes(tmp_path: Path) -> None:
    class Greeting(ps.Processor[str, str, str, str]):
        def init(self, context: ps.ProcessorContext[str, str]) -> None:
            context.forward(ps.Record("hello", "x", 1))

        def process(self, record: ps.Record[str, str]) -> None:
            """It only greets."""

    rig = processing(tmp_path, Greeting)
    loop = rig.running()
    rig.commit(loop)
    assert len(rig.broker.records("out")) == 1
    rig.broker.expire_transactions()
    rig.commit(loop)
    assert len(rig.broker.uncommitted_records("out")) == 1, "none was open"


def test_an_offset_that_was_committed_at_least_once_behind_a_transaction_that_is_still_open_holds(
    tmp_path: Path,
) -> None:
    rig = application(tmp_path)
    rig.write("in", ("a", "x", 1))
    producer = rig.clients.transactional_producer("another's")
    producer.init_transactions().result()
    producer.begin_transaction()
    producer.send("in", b"b", b"x", 2, None, 0)
    producer.flush(1)
    # Reading what is not committed, it has come behind that.
    rig.broker.group(APPLICATION).offsets[ps.TopicPartition("in", 0)] = CommittedOffset(2, "")
    loop = rig.running()
    rig.commit(loop)
    producer.commit_transaction({}, b"").result()
    rig.write("in", ("c", "x", 3))
    rig.commit(loop)
    assert rig.counts() == [("c", 2)], "nothing comes again"
