"""A restore of many records: in slices beside running tasks, by files, with progress, and resumed after a kill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.restore import replays
from penstock.actors.status import TaskState, TaskStatus
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.records import RecordBatch
from penstock.common.topics import NewTopic
from penstock.kafka.contracts import RecordConsumer
from penstock.state.disk.rocksdb import RocksDBTaskStores
from penstock.testing.fake_clients import FakeClients
from tests.actors.rig import CHANGELOG, HeardRestores, ManualClock, Rig, count_of, settle, states

HOUR_MS = 3_600_000
RECORDS = 30_000
RESTORED, RUNNING = TaskId(0, 0), TaskId(0, 1)


def log_counts(rig: Rig, records: int = RECORDS, partition: int = 0) -> None:
    """Writes the changelog: a third of the keys comes twice, and the count in each record is its number."""
    producer = rig.clients.producer()
    for number in range(records):
        key = b"user-%d" % (number % (records * 3 // 4))
        producer.send(CHANGELOG, key, (number + 1).to_bytes(8, "big"), 1_000 + number, None, partition)
    producer.flush(1)


def keep_deletions_for_an_hour(rig: Rig) -> None:
    compacted = {"cleanup.policy": "compact", "delete.retention.ms": str(HOUR_MS)}
    rig.clients.admin().delete_topics([CHANGELOG])
    rig.clients.admin().create_topics([NewTopic(CHANGELOG, 1, 1, compacted)])


def the_task(loop: StreamLoop, task: TaskId = RESTORED) -> TaskStatus:
    asked = loop.status()
    step_until(loop, asked.done)
    found = [each for each in asked.result().tasks if each.task_id == task]
    return found[0] if found else TaskStatus(task, TaskState.CREATED)


def step_until(loop: StreamLoop, condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        loop.step()
    raise AssertionError("2000 steps were not enough")


def kill(loop: StreamLoop) -> None:
    """Releases the database, as the end of the process does; nothing is sent to Kafka."""
    for hosted in loop._tasks.values():
        hosted.state_manager.close()


@pytest.fixture
def small_loads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Limits files to some thousand rows. Returns the files that are taken in, each as (store, name)."""
    monkeypatch.setattr(replays, "_LARGEST_LOAD", 200_000)
    taken: list[tuple[str, str]] = []
    ingest = RocksDBTaskStores.ingest

    def watched(stores: RocksDBTaskStores, store: str, table: Path) -> None:
        taken.append((store, table.name))
        ingest(stores, store, table)

    monkeypatch.setattr(RocksDBTaskStores, "ingest", watched)
    return taken


def test_tasks_are_restored_by_the_consumer_that_is_made_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path)
    log_counts(rig, 100)
    made: list[RecordConsumer] = []

    def restore_consumer(clients: FakeClients) -> RecordConsumer:
        made.append(clients.consumer())
        return made[-1]

    monkeypatch.setattr(FakeClients, "restore_consumer", restore_consumer)
    loop = rig.running()
    assert count_of(loop, "user-0") == 76
    (only,) = made
    assert loop._restoration._replays.consumer is only


def test_many_records_are_restored_by_files(tmp_path: Path, small_loads: list[tuple[str, str]]) -> None:
    rig = Rig(tmp_path)
    log_counts(rig)
    loop = rig.running()
    assert len(small_loads) > 5
    assert count_of(loop, "user-0") == 22_501
    assert count_of(loop, "user-22499") == 22_500
    assert loop._tasks[RESTORED].state_manager.changelog_offset("counts") == RECORDS
    rig.write("in", ("user-0", "x", 1))
    settle(loop)
    rig.stop(loop)
    assert rig.counts() == [("user-0", 22_502)]


def test_a_store_that_has_too_many_files_is_given_time_to_merge_them(
    tmp_path: Path, small_loads: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path)
    log_counts(rig)
    loop = rig.loop()
    rig.assign(loop, 1, RESTORED)
    step_until(loop, lambda: len(small_loads) == 2)
    with monkeypatch.context() as patched:
        patched.setattr(RocksDBTaskStores, "unsorted_files", lambda stores, store: 48)
        settle(loop)  # it does not spin meanwhile
        left = the_task(loop).restore_remaining
        assert left > 0
        settle(loop)
        assert (the_task(loop).restore_remaining, len(small_loads)) == (left, 2)
    settle(loop)
    assert states(loop) == {RESTORED: TaskState.RUNNING}
    assert loop._tasks[RESTORED].state_manager._task_stores.unsorted_files("counts") >= 0  # type: ignore[attr-defined]  # RocksDB's
    assert count_of(loop, "user-0") == 22_501


def test_few_records_are_written_as_they_come(tmp_path: Path, small_loads: list[tuple[str, str]]) -> None:
    rig = Rig(tmp_path)
    log_counts(rig, 5_000)
    assert count_of(rig.running(), "user-0") == 3_751
    assert small_loads == []


def test_a_restore_that_was_killed_continues_behind_what_was_written(
    tmp_path: Path, small_loads: list[tuple[str, str]], capfd: pytest.CaptureFixture[str]
) -> None:
    rig = Rig(tmp_path)
    log_counts(rig)
    loop = rig.loop()
    rig.assign(loop, 1, RESTORED)
    step_until(loop, lambda: len(small_loads) == 4 and loop._restoration._replays._writing is None)
    offset = loop._tasks[RESTORED].state_manager.changelog_offset("counts")
    assert offset is not None
    assert 10_000 < offset < RECORDS
    kill(loop)
    capfd.readouterr()
    again = rig.running(epoch=2)
    assert f"offset={offset}" in "".join(capfd.readouterr()), "only the tail is read again"
    assert count_of(again, "user-0") == 22_501


def restore_and_kill(rig: Rig, loads: list[tuple[str, str]], wanted: int) -> None:
    """Restores until ``wanted`` files were taken in, then kills the loop."""
    loop = rig.loop()
    rig.assign(loop, wanted, RESTORED)
    step_until(loop, lambda: len(loads) >= wanted and loop._restoration._replays._writing is None)
    kill(loop)


def test_a_store_that_was_too_old_is_wiped_once_however_often_its_restore_is_killed(
    tmp_path: Path, small_loads: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path)
    keep_deletions_for_an_hour(rig)
    rig.write("in", ("a", "x", 1))
    rig.stop(rig.running())
    rig.clock.now_ms += 2 * HOUR_MS
    log_counts(rig)
    wiped, wipe = [], RocksDBTaskStores.wipe

    def watched(stores: RocksDBTaskStores, store: str) -> None:
        wiped.append(store)
        wipe(stores, store)

    monkeypatch.setattr(RocksDBTaskStores, "wipe", watched)
    for kills in range(1, 4):
        restore_and_kill(rig, small_loads, kills)
        assert wiped == ["counts"]
    loop = rig.running(epoch=9)
    assert wiped == ["counts"]
    assert count_of(loop, "a") == 1
    assert count_of(loop, "user-0") == 22_501


def test_one_that_was_away_too_long_in_the_middle_of_a_restore_begins_again(
    tmp_path: Path, small_loads: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The changelog may have forgotten a deletion behind what was restored, although no offset was ever committed."""
    rig = Rig(tmp_path)
    keep_deletions_for_an_hour(rig)
    log_counts(rig)
    loop = rig.loop()
    rig.assign(loop, 1, RESTORED)
    with monkeypatch.context() as patched:
        ingest = RocksDBTaskStores.ingest

        def take_in_and_die(stores: RocksDBTaskStores, store: str, table: Path) -> None:
            ingest(stores, store, table)
            raise RuntimeError("killed: no offset tells of the rows")

        patched.setattr(RocksDBTaskStores, "ingest", take_in_and_die)
        step_until(loop, loop.finished.done)
    assert len(small_loads) == 1
    rig.clock.now_ms += 2 * HOUR_MS
    log = rig.broker.log(TopicPartition(CHANGELOG, 0)).records
    log[:] = [record for record in log if record.key != b"user-0"]  # deleted meanwhile, and the deletion forgotten
    again = rig.running(epoch=2)
    assert count_of(again, "user-0") is None
    assert count_of(again, "user-1") is not None


def test_a_value_read_before_a_file_is_ingested_is_read_again(tmp_path: Path) -> None:
    loop = Rig(tmp_path).running()
    manager = loop._tasks[RESTORED].state_manager
    load, buffer = manager.bulk_load("counts", 0), manager.store("counts").buffer  # type: ignore[attr-defined]  # its own
    assert load is not None
    manager.restore("counts", [b"key"], [(7).to_bytes(8, "big")], [1], 1, None, load)
    assert buffer.get(b"key") is None
    for _ in manager.write_load("counts", load, 1):
        pass
    assert buffer.get(b"key")[:2] == (7, 1)


# ---- slices ----


class SlowClock(ManualClock):
    """A clock that advances by 4 ms with each reading, so that each slice seems to take 8 ms."""

    def monotonic_s(self) -> float:
        self.looks = getattr(self, "looks", 0) + 1
        return self.now_ms / 1000 + self.looks * 0.004


def usual_slice(path: Path, alone: bool, monkeypatch: pytest.MonkeyPatch) -> int:
    """Returns the median number of records that a slice asks for, ``alone`` or beside a running task."""
    rig = Rig(path, partitions=2)
    rig.clock = SlowClock()
    log_counts(rig)
    loop = rig.loop()
    rig.assign(loop, 1, RESTORED) if alone else rig.assign(loop, 1, RESTORED, RUNNING)
    asked: list[int] = []
    consumer = loop._restoration._replays.consumer
    poll = consumer.poll

    def watched(max_records: int, timeout_s: float) -> list[RecordBatch]:
        asked.append(max_records)
        return poll(max_records, timeout_s)

    monkeypatch.setattr(consumer, "poll", watched)
    step_until(loop, lambda: states(loop).get(RESTORED) is TaskState.RUNNING)
    assert len(states(loop)) == 2 - alone
    assert all(after <= 2 * before for before, after in pairwise(asked)), "no jump by one lucky slice"
    return sorted(asked)[len(asked) // 2]


def test_slices_are_longer_while_no_task_runs_than_beside_one_that_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = usual_slice(tmp_path / "beside", False, monkeypatch)
    assert usual_slice(tmp_path / "alone", True, monkeypatch) > 3 * beside


def test_a_task_processes_between_two_steps_of_a_file_that_is_written(
    tmp_path: Path, small_loads: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replays, "_LARGEST_LOAD", 1_000_000)
    rig = Rig(tmp_path, partitions=2)
    log_counts(rig)
    loop = rig.loop()
    rig.assign(loop, 1, RESTORED, RUNNING)
    step_until(loop, lambda: loop._restoration._replays._writing is not None)
    rig.clock = loop._clock = loop._restoration._replays._clock = SlowClock()
    monkeypatch.setattr(replays, "_SLICE_S", 0.0)
    rig.write("in", ("k", "x", 1), partition=1)
    rounds = 0

    def written() -> bool:
        nonlocal rounds
        rounds += 1
        return loop._restoration._replays._writing is None

    step_until(loop, written)
    assert rounds > 3
    assert small_loads != []
    assert rig.counts() == [] or rig.counts() == [("k", 1)]
    assert the_task(loop, RUNNING).records_processed == 1


# ---- progress ----

BEGIN_STILL_END = ("restoring store", "still restoring", "store restored")


def test_a_restore_reports_its_start_its_progress_and_its_end(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rig = Rig(tmp_path)
    log_counts(rig, 10_000)
    loop = rig.loop()
    rig.assign(loop, 1, RESTORED)
    step_until(loop, lambda: the_task(loop).restore_total > 0)
    begun = the_task(loop)
    assert begun.restore_remaining + begun.restore_total == 10_000
    assert (begun.restore_rate, begun.restore_seconds_left) == (0.0, None)
    rig.clock.now_ms += 5_000
    loop.step()
    going = the_task(loop)
    assert going.restore_remaining + going.restore_total == 10_000
    assert going.restore_rate == pytest.approx(going.restore_total / 5)
    assert going.restore_seconds_left == pytest.approx(going.restore_remaining / going.restore_rate)
    rig.clock.now_ms += 5_000
    loop.step()
    settle(loop)
    done = the_task(loop)
    assert (done.restore_remaining, done.restore_total, done.restore_rate) == (0, 10_000, 0.0)
    message = [line for line in "".join(capfd.readouterr()).splitlines() if "stor" in line]
    begin, still, end = (
        next(line for line in message if what in line) for what in ("restoring store", "still", "restored")
    )
    assert "records_left=10000" in begin
    assert "store=counts" in begin
    assert "task=0_0" in still
    assert "records_per_s=" in still
    assert "seconds_left=" in still
    assert "records=10000" in end


def listening(path: Path, records: int, heard: HeardRestores) -> Rig:
    rig = Rig(path)
    rig.spec = replace(rig.spec, restore_listener=heard)
    log_counts(rig, records)
    return rig


@pytest.mark.parametrize("records", [RECORDS, 5_000], ids=["files", "batches"])
def test_a_restore_listener_hears_start_batches_and_end(
    tmp_path: Path, small_loads: list[tuple[str, str]], records: int
) -> None:
    heard = HeardRestores()
    listening(tmp_path, records, heard).running()
    assert set(heard.stores) == {(TopicPartition(CHANGELOG, 0), "counts")}
    start, *batches, end = heard.calls
    assert start == ("start", 0, records)
    assert end == ("end", records)
    assert {call[0] for call in batches} == {"batch"}
    assert sum(number for _, _, number in batches) == records
    assert len(batches) > 3
    ends = [offset for _, offset, _ in batches]
    assert ends == sorted(ends)
    assert ends[-1] == records - 1
    if small_loads:
        assert len(batches) == len(small_loads), "it is told of what is in the store, not of what is gathered"


def test_a_restore_listener_hears_that_a_task_left_before_it_had_all(
    tmp_path: Path, small_loads: list[tuple[str, str]]
) -> None:
    heard = HeardRestores()
    rig = listening(tmp_path, RECORDS, heard)
    loop = rig.loop()
    rig.assign(loop, 1, RESTORED)
    step_until(loop, lambda: len(heard.calls) == 3)
    rig.assign(loop, 2)
    settle(loop)
    *_, last = heard.calls
    assert last == ("suspended", sum(call[2] for call in heard.calls if call[0] == "batch"))


def test_an_actor_that_ends_while_it_restores_reports_that_to_the_listener(tmp_path: Path) -> None:
    heard = HeardRestores()
    rig = listening(tmp_path, RECORDS, heard)
    loop = rig.loop()
    rig.assign(loop, 1, RESTORED)
    step_until(loop, lambda: len(heard.calls) == 1)
    rig.stop(loop)
    assert heard.calls == [("start", 0, RECORDS), ("suspended", 0)]


@pytest.mark.parametrize("call", ["start", "batch", "end"])
def test_an_error_of_a_restore_listener_ends_the_actor_and_names_the_listener(tmp_path: Path, call: str) -> None:
    rig = listening(tmp_path, 5_000, HeardRestores(raises=call))
    loop = rig.loop()
    rig.assign(loop, 1, RESTORED)
    step_until(loop, loop.finished.done)
    error = loop.finished.result()
    assert error is not None
    assert "HeardRestores.on_" in error
    assert f"raised an exception for store 'counts', partition 0 of '{CHANGELOG}': KeyError('no such board')" in error
