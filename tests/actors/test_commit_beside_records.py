"""Records run while a commit flushes, waits for the broker and the coordinator, and has been written."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.status import TaskState
from penstock.common.ids import TaskId, TopicPartition
from penstock.state.key_value.store import KeyValueStateStore
from penstock.state.write_buffer.write_buffer import FLUSH_STEP_ENTRIES
from tests.actors.rig import CHANGELOG, STRING, Rig, count_of, key_query, producer_of, query, settle, states, uncached

KEYS = 3 * FLUSH_STEP_ENTRIES
TASK = TaskId(0, 0)


def writing(rig: Rig, times: int, stamp: int = 1, keys: int = KEYS) -> None:
    for _ in range(times):
        rig.write("in", *((f"k{number}", "x", stamp) for number in range(keys)))


def counted_once(tmp_path: Path, **config: Any) -> tuple[Rig, StreamLoop]:
    """A loop that has counted every key once, not committed."""
    rig = Rig(tmp_path, **config)
    loop = rig.running()
    writing(rig, 1)
    settle(loop)
    return rig, loop


def begin_commit(rig: Rig, loop: StreamLoop) -> None:
    rig.clock.now_ms += 1001
    while loop._commits.under_way is None:
        loop.step()


def processed(loop: StreamLoop) -> int:
    return loop._tasks[TASK].task.metrics().process_total


def test_records_are_processed_while_the_coordinator_has_not_answered(tmp_path: Path) -> None:
    rig, loop = counted_once(tmp_path)
    rig.coordinator.hold()
    rig.commit(loop)
    writing(rig, 2)
    settle(loop)
    assert processed(loop) == 3 * KEYS
    assert count_of(loop, "k7") == 3
    assert count_of(loop, "k7", committed=True) is None
    rig.coordinator.release()
    settle(loop)
    assert count_of(loop, "k7", committed=True) == 1, "what was written is the snapshot"
    assert count_of(loop, "k7") == 3
    assert rig.committed() == KEYS
    assert {count for _, count in rig.counts()} == {1}
    rig.commit(loop)
    assert rig.committed() == 3 * KEYS
    assert count_of(loop, "k7", committed=True) == 3
    assert rig.counts()[KEYS:] == [(f"k{number}", 3) for number in range(KEYS)]


def test_records_are_processed_between_the_steps_of_the_flush(tmp_path: Path) -> None:
    rig, loop = counted_once(tmp_path)
    begin_commit(rig, loop)
    seen = set()
    while not rig.coordinator.requests:
        rig.write("in", ("k0", "x", 2))
        loop.step()
        seen.add(processed(loop))
    assert len(seen) > 4, "they came one round after the other, before the request"
    settle(loop)
    assert rig.coordinator.requests[0].offsets[TopicPartition("in", 0)][0] == KEYS
    assert count_of(loop, "k0", committed=True) == 1


def test_records_wait_for_a_commit_of_a_store_that_cannot_take_changes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KeyValueStateStore, "takes_changes_while_committed", False)
    rig, loop = counted_once(tmp_path)
    rig.coordinator.hold()
    rig.commit(loop)
    writing(rig, 1)
    settle(loop)
    assert processed(loop) == KEYS
    rig.coordinator.release()
    settle(loop)
    assert processed(loop) == 2 * KEYS
    assert count_of(loop, "k7", committed=True) == 1


def test_records_of_the_other_tasks_do_not_wait_for_a_store_that_cannot_take_changes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path, partitions=2)
    loop = rig.running()
    for partition in range(2):
        rig.write("in", ("k0", "x", 1), partition=partition)
    settle(loop)
    held, free = (loop._tasks[TaskId(0, partition)] for partition in range(2))
    monkeypatch.setattr(held.state_manager.store("counts"), "takes_changes_while_committed", False)
    rig.coordinator.hold()
    rig.commit(loop)
    for partition in range(2):
        rig.write("in", *(("k0", "x", 1) for _ in range(3)), partition=partition)
    settle(loop)
    assert [hosted.task.metrics().process_total for hosted in (held, free)] == [1, 4]
    rig.coordinator.release()
    settle(loop)
    assert [hosted.task.metrics().process_total for hosted in (held, free)] == [4, 4]
    assert (rig.committed(0), rig.committed(1)) == (1, 1)
    rig.commit(loop)
    assert (rig.committed(0), rig.committed(1)) == (4, 4)


def test_under_exactly_once_records_wait_for_it_is_one_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path, processing_guarantee="exactly_once_v2")
    loop = rig.running()
    writing(rig, 1)
    settle(loop)
    under_way: Future[None] = Future()
    monkeypatch.setattr(producer_of(loop), "commit_transaction", lambda *_: under_way)
    rig.commit(loop)
    writing(rig, 1)
    settle(loop)
    assert processed(loop) == KEYS


def test_a_key_that_is_updated_before_its_turn_in_the_flush_comes_twice_and_in_order(tmp_path: Path) -> None:
    rig, loop = counted_once(tmp_path)
    begin_commit(rig, loop)
    rig.write("in", (f"k{KEYS - 1}", "x", 2))
    while processed(loop) == KEYS:
        loop.step()
    settle(loop)
    rig.commit(loop)
    assert [count for key, count in rig.counts() if key == f"k{KEYS - 1}"] == [1, 2]
    assert [count for key, count in rig.counts(CHANGELOG) if key == f"k{KEYS - 1}"] == [1, 2]


def test_the_snapshots_of_all_tasks_are_of_one_moment(tmp_path: Path) -> None:
    rig = Rig(tmp_path, partitions=2)
    loop = rig.running()
    for partition in range(2):
        rig.write("in", *((f"k{number}", "x", 1) for number in range(KEYS)), partition=partition)
    settle(loop)
    begin_commit(rig, loop)
    # What the flush of the first task leaves time for, comes before that of the second.
    rig.write("in", ("k5", "x", 2), partition=1)
    settle(loop)
    assert (rig.committed(0), rig.committed(1)) == (KEYS, KEYS)
    (found,) = query(loop, key_query("k5", committed=True, partition=1))
    assert [row[1] for row in found.rows] == [1]
    (found,) = query(loop, key_query("k5", partition=1))
    assert [row[1] for row in found.rows] == [2]


def test_the_offset_that_is_stored_is_of_the_flush_and_not_of_what_was_logged_since(tmp_path: Path) -> None:
    """An uncached store logs while the commit waits: these rows are of the next commit."""
    rig = Rig(tmp_path, uncached())
    loop = rig.running()
    rig.write("in", ("a", "x", 1), ("b", "x", 2))
    settle(loop)
    rig.coordinator.hold()
    rig.commit(loop)
    rig.write("in", ("a", "x", 3))
    settle(loop)
    assert rig.counts(CHANGELOG) == [("a", 1), ("b", 1), ("a", 2)]
    rig.coordinator.release()
    settle(loop)
    manager = loop._tasks[TASK].state_manager
    assert (rig.committed(), manager.changelog_offset("counts")) == (2, 2)
    rig.commit(loop)
    assert (rig.committed(), manager.changelog_offset("counts")) == (3, 3)


class Latest(ps.StateStore):
    """A user's own, which logs in its flush without a cache, as docs/STORES.md does."""

    takes_changes_while_committed = True
    logs_when_flushed = True

    def __init__(self, name: str, context: ps.StateStoreContext) -> None:
        super().__init__(name, context)
        self.changed: dict[bytes, bytes] = {}
        self.frozen: dict[bytes, bytes] = {}

    def view(self) -> Latest:
        return self

    @property
    def has_changes(self) -> bool:
        return bool(self.changed)

    def freeze(self) -> None:
        self.frozen, self.changed = self.changed, {}

    def flush(self, batch: ps.CommitBatch) -> Iterator[None]:
        assert self.context.log is not None
        for key, row in self.frozen.items():
            batch.put(self.name, key, row)
            self.context.log(key, row, 1)
        yield

    def batch_written(self) -> None:
        self.frozen = {}


@dataclass(frozen=True)
class LatestBuilder(ps.StoreBuilder[str, str]):
    kind = "latest"

    def open(self, context: ps.StateStoreContext) -> ps.StateStore:
        return Latest(self.name, context)


class KeepLatest(ps.Processor[str, str, str, str]):
    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        self.store: Latest = context.get_state_store("counts")

    def process(self, record: ps.Record[str, str]) -> None:
        assert record.key is not None
        self.store.changed[record.key.encode()] = b"seen"


def test_a_store_of_the_users_that_logs_in_its_flush_is_written_with_the_offset_of_that_flush(tmp_path: Path) -> None:
    builder = ps.StreamsBuilder()
    builder.add_state_store(LatestBuilder("counts", STRING, STRING, persistent=True))
    builder.stream("in", ps.Consumed.with_(STRING, STRING)).process(KeepLatest, "counts")
    rig = Rig(tmp_path, builder.build())
    loop = rig.running()
    for commits in range(1, 4):
        writing(rig, 1, keys=10)
        settle(loop)
        rig.commit(loop)
        assert loop._tasks[TASK].state_manager.changelog_offset("counts") == 10 * commits


@pytest.mark.parametrize("records", [1, 5])
def test_a_batch_that_the_broker_had_already_does_not_make_the_stored_offset_sink(tmp_path: Path, records: int) -> None:
    """librdkafka numbers it from −1, so that its end is among the first offsets, or there is none."""
    rig, loop = counted_once(tmp_path)
    rig.commit(loop)
    manager = loop._tasks[TASK].state_manager
    assert manager.changelog_offset("counts") == KEYS
    producer_of(loop).offsets_unknown = True
    writing(rig, 1, keys=records)
    settle(loop)
    rig.commit(loop)
    assert rig.committed() == KEYS + records
    assert manager.changelog_offset("counts") == KEYS
    producer_of(loop).offsets_unknown = False
    writing(rig, 1, keys=1)
    settle(loop)
    rig.commit(loop)
    assert manager.changelog_offset("counts") == KEYS + records + 1


def test_no_commit_begins_before_the_one_under_way_is_through(tmp_path: Path) -> None:
    rig, loop = counted_once(tmp_path)
    rig.coordinator.hold()
    rig.commit(loop)
    writing(rig, 1)
    for _ in range(3):
        rig.commit(loop)
    assert len(rig.coordinator.requests) == 1
    rig.coordinator.release()
    settle(loop)
    rig.commit(loop)
    assert len(rig.coordinator.requests) == 2


def test_a_commit_that_is_asked_for_while_one_is_under_way_follows_it(tmp_path: Path) -> None:
    class Asking(ps.Processor[str, str, str, str]):
        def init(self, context: ps.ProcessorContext[str, str]) -> None:
            self.context = context

        def process(self, record: ps.Record[str, str]) -> None:
            self.context.commit()

    builder = ps.StreamsBuilder()
    builder.stream("in", ps.Consumed.with_(STRING, STRING)).process(Asking)
    rig = Rig(tmp_path, builder.build())
    loop = rig.running()
    rig.coordinator.hold()
    rig.write("in", ("a", "x", 1))
    settle(loop)
    rig.write("in", ("a", "x", 2))
    settle(loop)
    assert len(rig.coordinator.requests) == 1
    rig.coordinator.release()
    settle(loop)
    assert (len(rig.coordinator.requests), rig.committed()) == (2, 2)


def test_records_wait_when_both_generations_of_updates_would_take_too_much_memory(tmp_path: Path) -> None:
    rig, loop = counted_once(tmp_path, statestore_memory_max_bytes=1 << 20)
    rig.coordinator.hold()
    rig.commit(loop)
    rig.write("in", *((f"other{number}", "x", 1) for number in range(4 * KEYS)))
    for _ in range(200):
        loop.step()
    assert processed(loop) < 5 * KEYS
    assert loop._budget.is_full
    rig.coordinator.release()
    settle(loop, at_most=20_000)
    assert processed(loop) == 5 * KEYS


def test_an_assignment_waits_for_the_commit_under_way_and_commits_what_came_since(tmp_path: Path) -> None:
    rig, loop = counted_once(tmp_path)
    rig.coordinator.hold()
    rig.commit(loop)
    writing(rig, 1)
    settle(loop)
    assigned = rig.assign(loop, 2)
    writing(rig, 1)
    settle(loop)
    assert processed(loop) == 2 * KEYS, "what would wait for another commit is not begun"
    assert not assigned.done()
    rig.coordinator.release()
    settle(loop)
    assert assigned.done()
    assert rig.committed() == 2 * KEYS
    assert states(loop) == {}
    assert count_of(rig.running(epoch=3), "k1") == 3


def test_a_stop_while_a_commit_is_under_way_commits_all_that_was_processed(tmp_path: Path) -> None:
    rig, loop = counted_once(tmp_path)
    begin_commit(rig, loop)
    writing(rig, 1)
    while processed(loop) == KEYS:
        loop.step()
    done = processed(loop)
    rig.stop(loop)
    assert rig.committed() == done


def test_a_refusal_drops_the_task_with_what_it_did_since(tmp_path: Path) -> None:
    rig, loop = counted_once(tmp_path)
    rig.coordinator.hold()
    rig.commit(loop)
    writing(rig, 1)
    settle(loop)
    rig.coordinator.refusal = "assignment 1 has passed"
    rig.coordinator.release()
    settle(loop)
    assert states(loop) == {}
    assert rig.committed() is None
    assert not loop.finished.done()


def test_a_dropped_task_is_opened_again_when_what_it_sent_has_arrived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, the changelog would grow behind the end up to which it is restored, by records that no row has."""
    rig = Rig(tmp_path, uncached())
    loop = rig.running()
    writing(rig, 1, keys=1)
    settle(loop)
    rig.coordinator.hold()
    rig.commit(loop)
    with monkeypatch.context() as slow:
        slow.setattr(producer_of(loop), "poll", lambda: None)
        writing(rig, 1, keys=2)
        settle(loop)
        assert processed(loop) == 3
        rig.coordinator.refusal = "assignment 1 has passed"
        rig.coordinator.release()
        rig.coordinator.refusal = ""
        settle(loop)
        rig.assign(loop, 2, TASK)
        for _ in range(20):
            loop.step()
        assert states(loop) == {}
        assert len(rig.counts(CHANGELOG)) == 1
    settle(loop)
    assert states(loop) == {TASK: TaskState.RUNNING}
    rig.commit(loop)
    offset = loop._tasks[TASK].state_manager.changelog_offset("counts")
    assert offset == len(rig.counts(CHANGELOG))
    assert {key: count_of(loop, key, committed=True) for key in ("k0", "k1")} == dict(rig.counts(CHANGELOG))
