"""Errors that pass, records that retention deletes unread, and a slow task beside others. On the fake broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

import penstock as ps
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.status import TaskState, TaskStatus
from penstock.actors.steps import never
from penstock.common.errors import StreamsError
from penstock.common.ids import CommittedOffset, TaskId, TopicPartition
from penstock.common.offset_resets import OffsetReset
from penstock.kafka.settings import as_streams_error
from penstock.testing.fake_broker import TransactionState
from tests.actors.rig import APPLICATION, CHANGELOG, STRING, Rig, count_of, pass_through, settle, states

IN = TopicPartition("in", 0)


def the_task(loop: StreamLoop) -> TaskStatus:
    asked = loop.status()
    loop.step()
    (task,) = asked.result().tasks
    return task


# ---- errors that pass ----

PASSING = [
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
]


def passing(code: int) -> StreamsError:
    return as_streams_error(KafkaException(KafkaError(code)), "ask for offsets", "fake:9092")


@pytest.mark.parametrize("code", PASSING)
def test_an_error_of_a_leader_change_during_a_restore_is_waited_out(tmp_path: Path, code: int) -> None:
    rig = Rig(tmp_path)
    rig.write("in", ("a", "x", 1))
    rig.stop(rig.running())
    rig.spec = Rig(tmp_path / "another disk").spec
    loop = rig.loop()
    consumer, asked = loop._restoration._replays.consumer, []
    fetch_end_offsets = consumer.fetch_end_offsets

    def fails_first(partitions: set[TopicPartition]) -> dict[TopicPartition, int]:
        asked.append(partitions)
        if len(asked) < 3:
            raise passing(code)
        return fetch_end_offsets(partitions)

    consumer.fetch_end_offsets = fails_first  # type: ignore[assignment, method-assign]  # for this test
    rig.assign(loop, 1, TaskId(0, 0))
    for _ in range(5):
        settle(loop)
    assert not loop.finished.done()
    assert len(asked) == 3
    assert count_of(loop, "a") == 1


@pytest.mark.parametrize("code", PASSING)
def test_an_error_of_a_leader_change_at_the_start_of_a_task_is_waited_out(tmp_path: Path, code: int) -> None:
    rig = Rig(tmp_path)
    rig.write("in", ("a", "x", 1))
    loop = rig.loop()
    rig.broker.error = passing(code)
    rig.assign(loop, 1, TaskId(0, 0))
    for _ in range(20):
        loop.step()
    assert not loop.finished.done()
    rig.broker.error = None
    settle(loop)
    assert count_of(loop, "a") == 1


# ---- retention overtakes a reader ----


def test_records_deleted_before_they_were_read_are_skipped_counted_and_the_others_are_processed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rig = Rig(tmp_path, pass_through(), partitions=2)
    loop = rig.running()
    rig.write("in", *(("k", f"v{number}", number + 1) for number in range(10)), partition=0)
    rig.write("in", ("k", "other", 1), partition=1)
    rig.clients.admin().delete_records({IN: 7})
    settle(loop)
    assert not loop.finished.done()
    assert sorted(record.value or b"" for record in rig.broker.records("out")) == [b"OTHER", b"V7", b"V8", b"V9"]
    asked = loop.status()
    loop.step()
    assert {task.task_id.partition: task.lost_records for task in asked.result().tasks} == {0: 7, 1: 0}
    rig.commit(loop)
    assert (rig.committed(0), rig.committed(1)) == (10, 1)
    message = "".join(capfd.readouterr())
    assert "records were deleted before they were read" in message
    assert "offsets_lost=7" in message.replace("\x1b[0m", "").replace("\x1b[35m", "").replace("\x1b[36m", "")


def test_a_lost_position_is_left_behind_for_good_even_when_no_record_follows(tmp_path: Path) -> None:
    rig = Rig(tmp_path, pass_through("latest"))
    rig.clients.admin().commit(APPLICATION, {IN: CommittedOffset(0)})
    rig.write("in", ("k", "read", 1))
    loop = rig.running()
    rig.write("in", *(("k", "gone", 2) for _ in range(4)))
    rig.clients.admin().delete_records({IN: 5})
    settle(loop)
    rig.commit(loop)
    rig.stop(loop)
    assert rig.committed() == 5
    rig.write("in", ("k", "while it was down", 3))
    rig.running()
    assert [record.value for record in rig.broker.records("out")] == [b"READ", b"WHILE IT WAS DOWN"]


def lost_with_records_waiting(tmp_path: Path) -> tuple[Rig, StreamLoop]:
    """A task that has two records waiting, committed at 0, whose position 2 is lost as retention has come to 5."""
    rig = Rig(tmp_path, pass_through("latest"))
    rig.clients.admin().commit(APPLICATION, {IN: CommittedOffset(0)})
    loop = rig.running()
    rig.write("in", ("k", "one", 1), ("k", "two", 2))
    for hosted, batch in loop._reader.fetch(loop._running):
        hosted.add(batch)
    rig.write("in", *(("k", "gone", 3) for _ in range(3)))
    rig.clients.admin().delete_records({IN: 5})
    assert list(loop._reader.reset({IN: 2}, never)) == []
    return rig, loop


def test_a_lost_position_is_left_behind_once_the_records_before_it_are_processed(tmp_path: Path) -> None:
    rig, loop = lost_with_records_waiting(tmp_path)
    settle(loop)
    rig.commit(loop)
    assert [record.value for record in rig.broker.records("out")] == [b"ONE", b"TWO"]
    assert rig.committed() == 5
    rig.stop(loop)
    rig.write("in", ("k", "while it was down", 3))
    rig.running()
    assert [record.value for record in rig.broker.records("out")][2:] == [b"WHILE IT WAS DOWN"]


def test_a_lost_position_that_records_follow_is_left_behind_by_them(tmp_path: Path) -> None:
    rig, loop = lost_with_records_waiting(tmp_path)
    rig.write("in", ("k", "three", 3), ("k", "four", 4))
    settle(loop)
    rig.commit(loop)
    assert [record.value for record in rig.broker.records("out")] == [b"ONE", b"TWO", b"THREE", b"FOUR"]
    assert rig.committed() == 7


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_a_topic_that_is_shorter_than_what_was_read_is_read_on_at_its_end(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], policy: OffsetReset
) -> None:
    rig = Rig(tmp_path, pass_through(policy))
    rig.clients.admin().commit(APPLICATION, {IN: CommittedOffset(0)})
    loop = rig.running()
    rig.write("in", *(("k", f"v{number}", number + 1) for number in range(5)))
    settle(loop)
    del rig.broker.log(IN).records[3:]  # what a leader that was elected uncleanly never had
    settle(loop)
    rig.write("in", ("k", "after", 9))
    settle(loop)
    values = [record.value for record in rig.broker.records("out")]
    assert values == [b"V0", b"V1", b"V2", b"V3", b"V4", b"AFTER"], "nothing is processed twice"
    rig.commit(loop)
    assert rig.committed() == 4
    message = "".join(capfd.readouterr())
    assert "position beyond the end of the partition" in message
    assert "records were deleted before they were read" not in message
    assert the_task(loop).lost_records == 0


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_a_topic_that_is_shorter_than_what_was_committed_is_read_on_at_its_end_by_a_start_too(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], policy: OffsetReset, guarantee: str
) -> None:
    rig = Rig(tmp_path, pass_through(policy), processing_guarantee=guarantee)
    rig.broker.group(APPLICATION).offsets[IN] = CommittedOffset(0)
    loop = rig.running()
    rig.write("in", *(("k", f"v{number}", number + 1) for number in range(5)))
    settle(loop)
    rig.commit(loop)
    rig.stop(loop)
    assert rig.committed() == 5
    del rig.broker.log(IN).records[3:]  # what a leader that was elected uncleanly never had
    loop = rig.running()
    rig.write("in", ("k", "after", 9))
    settle(loop)
    rig.commit(loop)
    values = [record.value for record in rig.broker.records("out")]
    assert values == [b"V0", b"V1", b"V2", b"V3", b"V4", b"AFTER"], "nothing is processed twice"
    assert rig.committed() == 4
    message = "".join(capfd.readouterr())
    assert "committed offset beyond the end of the partition, continuing at its end" in message
    assert "offsets_gone=2" in message.replace("\x1b[0m", "").replace("\x1b[35m", "").replace("\x1b[36m", "")


def test_a_position_behind_a_log_that_lacks_the_end_of_a_transaction_continues_behind_its_records(
    tmp_path: Path,
) -> None:
    """The records were processed when the transaction had ended."""
    rig = Rig(tmp_path, pass_through("earliest"), processing_guarantee="exactly_once_v2")
    stranger = rig.clients.transactional_producer("stranger")
    stranger.init_transactions()
    stranger.begin_transaction()
    stranger.send("in", b"k", b"once", 1, None, 0)
    stranger.commit_transaction({}, b"")
    loop = rig.running()
    settle(loop)
    rig.commit(loop)
    (record,) = rig.broker.log(IN).records[:1]
    assert record.transaction is not None
    record.transaction.state = TransactionState.OPEN
    del rig.broker.log(IN).records[1:]
    settle(loop)
    record.transaction.state = TransactionState.COMMITTED
    rig.write("in", ("k", "after", 9))
    settle(loop)
    rig.commit(loop)
    assert [record.value for record in rig.broker.records("out")] == [b"ONCE", b"AFTER"]


def test_a_changelog_that_deletes_records_before_they_are_restored_is_restored_from_its_new_beginning(
    tmp_path: Path,
) -> None:
    rig = Rig(tmp_path)
    producer = rig.clients.producer()
    for number in range(3000):
        producer.send(CHANGELOG, b"%d" % number, (1).to_bytes(8, "big"), 1, None, 0)
    producer.flush(1)
    loop = rig.loop()
    rig.assign(loop, 1, TaskId(0, 0))
    while the_task_restores(loop) != 2500:
        loop.step()
    rig.clients.admin().delete_records({TopicPartition(CHANGELOG, 0): 2000})
    settle(loop)
    assert states(loop) == {TaskId(0, 0): TaskState.RUNNING}
    assert count_of(loop, "100") is None, "what the changelog has no more is not in the store either"
    assert count_of(loop, "2999") == 1


def test_the_changelog_of_a_task_that_leaves_while_it_restores_is_not_read_on(tmp_path: Path) -> None:
    rig = Rig(tmp_path, partitions=2)
    producer = rig.clients.producer()
    for number in range(3000):
        for partition in range(2):
            producer.send(CHANGELOG, b"%d" % number, (1).to_bytes(8, "big"), 1, None, partition)
    producer.flush(1)
    loop = rig.loop()
    rig.assign(loop, 1, TaskId(0, 0), TaskId(0, 1))
    while not 0 < the_task_restores(loop) < 5500:
        loop.step()
    rig.assign(loop, 2, TaskId(0, 1))
    for _ in range(3):
        states(loop)
    assert list(states(loop)) == [TaskId(0, 1)]
    batches = loop._restoration._replays.consumer.poll(100_000, 0)
    assert {batch.partition for batch in batches} == {TopicPartition(CHANGELOG, 1)}


def the_task_restores(loop: StreamLoop) -> int:
    asked = loop.status()
    loop.step()
    return sum(task.restore_remaining for task in asked.result().tasks)


# ---- one slow task ----


def slow_topology(rig_clock: Callable[[], None], done: list[str]) -> ps.Topology:
    def work(value: str) -> str:
        if value == "slow":
            rig_clock()
        done.append(value)
        return value

    builder = ps.StreamsBuilder()
    stream = builder.stream("in", ps.Consumed.with_(STRING, STRING))
    stream.map_values(work).to("out", ps.Produced.with_(STRING, STRING))
    return builder.build()


def slow_rig(tmp_path: Path, done: list[str], **config: Any) -> Rig:
    rig = Rig(tmp_path, partitions=2, commit_interval_ms=10**9, **config)

    def pass_ten_ms() -> None:
        rig.clock.now_ms += 10

    rig.spec = Rig(tmp_path, slow_topology(pass_ten_ms, done), partitions=2, commit_interval_ms=10**9, **config).spec
    return rig


def test_a_slow_task_does_not_starve_the_others_of_its_actor(tmp_path: Path) -> None:
    done: list[str] = []
    rig = slow_rig(tmp_path, done)
    loop = rig.running()
    # Enough work that many records are fetched at once.
    rig.write("in", *(("k", "quick", 1) for _ in range(20_000)), partition=1)
    settle(loop)
    assert max(hosted.batch_size for hosted in loop._running) == 2000
    done.clear()
    rig.write("in", *(("k", "slow", 1) for _ in range(3000)), partition=0)
    while "slow" not in done:
        loop.step()
    rig.write("in", ("k", "fast", 1), partition=1)
    settle(loop, at_most=10_000)
    assert len(done) == 3001
    # The first batch has 100 records, because it is not known yet how slow they are. Then it is one at a time.
    assert done.index("fast") < 200


def test_a_slow_task_is_paused_when_it_has_enough_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    rig = slow_rig(tmp_path, done, buffered_records_per_partition=10)
    loop = rig.running()
    paused: list[TopicPartition] = []
    pause = loop._consumer.pause

    def note_and_pause(partitions: list[TopicPartition]) -> None:
        paused.extend(partitions)
        pause(partitions)

    monkeypatch.setattr(loop._consumer, "pause", note_and_pause)
    rig.write("in", *(("k", "slow", 1) for _ in range(5000)), partition=0)
    most = 0
    for _ in range(20_000):
        if loop.step() > 0 and loop.step() > 0:
            break
        most = max(most, *(hosted.task.queued(IN) for hosted in loop._running if IN in hosted.sources))
    assert len(done) == 5000
    assert set(paused) == {IN}
    assert most < 1000, "what is fetched beyond the limit is one fetch"


def test_a_slow_task_that_is_paused_is_read_on_when_it_is_the_last_of_its_actor(tmp_path: Path) -> None:
    done: list[str] = []
    rig = slow_rig(tmp_path, done, buffered_records_per_partition=10)
    loop = rig.running()
    rig.write("in", *(("k", "slow", 1) for _ in range(5000)), partition=0)
    while IN not in loop._reader._paused:
        loop.step()
    rig.assign(loop, 2, TaskId(0, 0))
    settle(loop, at_most=20_000)
    assert len(done) == 5000


def test_a_paused_partition_whose_position_is_lost_is_resumed_before_it_is_read_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = slow_rig(tmp_path, [], buffered_records_per_partition=10)
    loop = rig.running()
    rig.write("in", *(("k", "slow", 1) for _ in range(5000)), partition=0)
    while IN not in loop._reader._paused:
        loop.step()
    calls: list[str] = []
    monkeypatch.setattr(loop._consumer, "resume", lambda partitions: calls.append(f"resume {list(partitions)}"))
    monkeypatch.setattr(loop._consumer, "seek", lambda tp, offset: calls.append(f"seek {tp} {offset}"))
    rig.clients.admin().delete_records({IN: 4000})
    assert list(loop._reader.reset({IN: 300}, never)) == []
    assert calls == [f"resume {[IN]}", f"seek {IN} 4000"]
