"""Recent faults of Kafka Streams under exactly once, or after an unclean exit: penstock must not have them.

An unclean exit is a copy of the state directory while all of it is open: what ``kill -9`` leaves on disk.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from structlog.testing import capture_logs

import penstock as ps
from penstock.actors.commits.exactly_once import transactional_id
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.store_queries import QueryFailure
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.contracts import TransactionAbortedError
from penstock.kafka.transactions import Transactions
from penstock.state.disk.rocksdb import RocksDBTaskStores
from penstock.testing.fake_clients import FakeClients
from penstock.testing.fake_producers import FakeTransactionalProducer
from tests.actors.exactly_once import EXACTLY, TASK, application
from tests.actors.rig import APPLICATION, CHANGELOG, LONG, STRING, Rig, count_of, settle
from tests.actors.test_store_positions import asked
from tests.waiting import PATIENCE_S

SETTINGS = {"transactional.id": "app-1", "transaction.timeout.ms": 10_000}
LOG = TopicPartition(CHANGELOG, 0)
RESTORED, WIPED = "restoring store", "store wiped, restoring from the beginning"
QUIET_LOG = f"{APPLICATION}-quiet-changelog"


def after_an_unclean_exit(rig: Rig, path: Path) -> Rig:
    """Returns the application over a copy of what the disk has now; the owner of its transactional id is fenced."""
    shutil.copytree(rig.spec.config.state_dir, path)
    rig.broker.init_producer(transactional_id(APPLICATION, "", 1))
    return rig.on_another_node(path)


def begun(rig: Rig) -> tuple[StreamLoop, list[Any]]:
    """Returns the task's actor on this disk, once it has done all there was to do, and the log of its restores."""
    with capture_logs() as logs:
        loop = rig.loop()
        rig.assign(loop, 100, TASK)
        settle(loop)
        rig.commit(loop)
    assert not loop.finished.done(), loop.finished.result()
    return loop, [
        log for log in logs if log["event"] in ("restoring store", "store wiped, restoring from the beginning")
    ]


def on_disk(rig: Rig, path: Path) -> tuple[dict[bytes, int], int | None]:
    """Returns what the disk would have of ``counts`` if the process ended now, and the offset that is there."""
    shutil.copytree(rig.spec.config.state_dir / APPLICATION / str(TASK), path)
    stores = RocksDBTaskStores(path / "rocksdb", rig.spec.topology.subtopologies[0].stores)
    rows = {key: int.from_bytes(row[8:], "big") for key, row in stores.store("counts").scan(None, None)}
    offset = stores.changelog_offset("counts")
    stores.close()
    return rows, offset


def folded(rig: Rig, end: int | None) -> dict[bytes, int]:
    """Returns what the committed rows of the changelog make in front of ``end``."""
    rows = {}
    for record in rig.broker.log(LOG).records[: end or 0]:
        if record.is_committed:
            rows[record.key or b""] = int.from_bytes(record.value or b"", "big")
    return rows


# ---- KAFKA-20685 ----


@pytest.mark.parametrize("moment", ["before the commit", "in the commit"])
def test_of_a_transaction_that_was_not_committed_nothing_is_on_disk_after_an_unclean_exit(
    tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KAFKA-20685: a checkpoint written when the restore ended survived in RUNNING. After a crash, stores were taken as
    valid although RocksDB already held writes of a transaction that was then aborted."""
    rig = application(tmp_path)
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    rig.commit(loop)
    rig.stop(loop)
    shutil.rmtree(rig.spec.config.state_dir)
    restored, message = begun(rig)
    assert [log["offset"] for log in message] == [0, 0], "from the beginning, on an empty disk"
    rig.write("in", ("a", "x", 2), ("b", "x", 3))
    settle(restored)
    assert count_of(restored, "b") == 1
    if moment == "in the commit":
        never: Future[None] = Future()
        monkeypatch.setattr(FakeTransactionalProducer, "commit_transaction", lambda *_: never)
        rig.clock.now_ms += 1001
        for _ in range(50):
            restored.step()
        assert restored._commits.under_way is not None
        monkeypatch.undo()
    assert on_disk(rig, tmp_path / "looked at")[0] == {b"a": 1}
    there = after_an_unclean_exit(rig, tmp_path / "copy")
    again, _ = begun(there)
    assert rig.counts() == [("a", 2), ("a", 4), ("b", 2)]
    assert rig.counts(CHANGELOG) == [("a", 1), ("a", 2), ("b", 1)]
    assert {key: count_of(again, key, committed=True) for key in "ab"} == {"a": 2, "b": 1}


# ---- KAFKA-20753 ----


def test_unclean_exits_one_after_the_other_wipe_no_store_and_cost_the_tail_alone(tmp_path: Path) -> None:
    """KAFKA-20753: the mark of a clean close was lost, so each start found the store dirty, wiped it and restored it,
    and so did the next."""
    rig = application(tmp_path)
    loop = rig.running()
    for number in range(20):
        rig.write("in", (f"k{number}", "x", 1))
        rig.commit(loop)
    for number in range(4):
        rig = after_an_unclean_exit(rig, tmp_path / f"copy-{number}")
        before = rig.broker.log(LOG).end
        loop, message = begun(rig)
        assert all(log["event"] == RESTORED for log in message), message
        assert all(log["offset"] >= before - 2 for log in message), "what it had was restored again"
        rig.write("in", ("k0", "x", 2))
        rig.commit(loop)
    assert count_of(loop, "k0") == 5
    assert count_of(loop, "k19") == 1


def test_a_store_that_had_to_be_wiped_is_wiped_once(tmp_path: Path) -> None:
    """KAFKA-20753, too: the state after a wipe must not look like the one that led to it."""
    rig = application(tmp_path)
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    rig.commit(loop)
    rig.stop(loop)
    other, _ = begun(rig.on_another_node(tmp_path / "elsewhere"))
    for _ in range(5):
        rig.write("in", ("a", "x", 2))
        rig.commit(other)
    rig.stop(other)
    rig.broker.delete_records(LOG, rig.broker.log(LOG).end - 2)  # all that is older than the last count
    found = []
    for number in range(3):
        rig = after_an_unclean_exit(rig, tmp_path / f"copy-{number}")
        loop, message = begun(rig)
        end = rig.broker.log(LOG).end
        found.append([(log["event"], log["offset"] < end - 1) for log in message if log["store"] == "counts"])
        assert count_of(loop, "a") == 6
    restored_marker = [(RESTORED, False)]
    assert found == [[(WIPED, True), (RESTORED, True)], restored_marker, restored_marker]


# ---- KAFKA-20760 ----


def test_at_every_moment_the_rows_on_disk_are_those_in_front_of_the_offset_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KAFKA-20760: the position of a store was written by another batch than its rows, and a crash between the two left
    one without the other."""
    rig = application(tmp_path)
    seen: list[tuple[dict[bytes, int], int | None]] = []
    change = RocksDBTaskStores._guarded
    looking = [False]

    def changed(self: RocksDBTaskStores, call: Callable[[], Any]) -> Any:
        result = change(self, call)
        if looking[0]:
            looking[0] = False  # the copy is opened by the same class
            seen.append(on_disk(rig, tmp_path / f"moment-{len(seen)}"))
            looking[0] = True
        return result

    loop = rig.running()
    monkeypatch.setattr(RocksDBTaskStores, "_guarded", changed)
    looking[0] = True
    for number in range(6):
        rig.write("in", ("a", "x", 1), (f"k{number}", "x", 1))
        if number == 3:
            rig.coordinator.join()  # the next transaction is aborted
        rig.commit(loop)
    looking[0] = False
    assert len({offset for _, offset in seen}) > 4
    for rows, offset in seen:
        assert rows == folded(rig, offset)


def test_after_a_crash_no_answer_claims_records_that_its_rows_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KAFKA-20760, as a query sees it: Kafka has the offsets of a commit that the disk lacks."""
    rig = application(tmp_path)
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    rig.commit(loop)
    monkeypatch.setattr(RocksDBTaskStores, "write", lambda *_: pytest.fail("the process ends here"))
    rig.write("in", ("a", "x", 2))
    rig.clock.now_ms += 1001
    for _ in range(100):
        if rig.committed() != 2:
            loop.step()
    monkeypatch.undo()
    assert rig.committed() == 2
    there = after_an_unclean_exit(rig, tmp_path / "copy")
    again = there.loop()
    there.assign(again, 100, TASK)
    answers = []
    for step in range(200):
        if step == 100:
            rig.write("in", ("a", "x", 3))
        again.step()
        there.clock.now_ms += 20
        for committed in (True, False):
            position, values, failure = asked(again, "counts", committed=committed)
            if failure is None:
                counted = position.get_partition_positions("in").get(0, -1) + 1
                assert values == ([counted] if counted else []), f"committed={committed}"
                answers.append((committed, counted))
            else:
                assert failure in (QueryFailure.NOT_ACTIVE, QueryFailure.NOT_PRESENT), failure
    assert set(answers) == {(True, 2), (True, 3), (False, 2), (False, 3)}


# ---- KAFKA-20663 ----


def two_stores() -> ps.Topology:
    """Counts the records of each key in ``counts``, and in ``quiet`` only those with the value "keep"."""
    builder = ps.StreamsBuilder()
    lines = builder.stream("in", ps.Consumed.with_(STRING, STRING))
    kept: Any = ps.Materialized.as_("counts")
    lines.group_by_key().count(kept.with_caching_disabled()).to_stream().to("out", ps.Produced.with_(STRING, LONG))
    seldom: Any = ps.Materialized.as_("quiet")
    lines.filter(lambda _, line: line == "keep").group_by_key().count(seldom.with_caching_disabled())
    return builder.build()


def test_the_offset_of_a_store_that_has_nothing_to_do_is_as_new_on_disk_as_its_last_change(tmp_path: Path) -> None:
    """KAFKA-20663: the offset of a quiet store stayed in memory, so after an unclean exit the one on disk was hours
    old, and retention had passed it: out of range, and the task was wiped."""
    rig = Rig(tmp_path / "0", two_stores(), **EXACTLY)
    rig.clients.admin().create_topics([NewTopic(QUIET_LOG, 1, config={"cleanup.policy": "compact"})])
    loop = rig.running()
    for number in range(5):
        rig.write("in", ("q", "keep", number))
        rig.commit(loop)
    last = rig.broker.log(TopicPartition(QUIET_LOG, 0)).end
    for number in range(30):
        rig.write("in", ("a", "x", number))
        rig.commit(loop)
    # Compaction has left only the last row of the quiet store's changelog.
    rig.broker.delete_records(TopicPartition(QUIET_LOG, 0), last - 2)
    rig.clock.now_ms += 100 * 86_400_000
    settle(loop)
    there = after_an_unclean_exit(rig, tmp_path / "copy")
    again, message = begun(there)
    assert all(log["event"] == RESTORED for log in message), message
    assert {log["store"]: log["offset"] for log in message if log["store"] == "quiet"} in ({}, {"quiet": last - 1})
    assert count_of(again, "a") == 30
    rig.write("in", ("q", "keep", 99))
    rig.commit(again)
    assert [int.from_bytes(r.value or b"", "big") for r in rig.broker.records(QUIET_LOG)] == [5, 6]


# ---- KAFKA-18067 ----


def test_an_actor_that_is_fenced_takes_its_id_with_a_new_producer_once_each_time_and_closes_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KAFKA-18067: the fix for a leaked producer kept a fenced one in use, so that it was fenced at each commit, for
    ever."""
    made, closed = [], []
    make, close = FakeClients.transactional_producer, FakeTransactionalProducer.close

    def making(self: FakeClients, name: str) -> Any:
        made.append(make(self, name))
        return made[-1]

    def closing(self: FakeTransactionalProducer) -> None:
        closed.append(self)
        close(self)

    monkeypatch.setattr(FakeClients, "transactional_producer", making)
    monkeypatch.setattr(FakeTransactionalProducer, "close", closing)
    rig = application(tmp_path)
    loop = rig.running()
    for number in range(1, 6):
        rig.broker.init_producer(transactional_id(APPLICATION, "", 1))
        rig.write("in", ("a", "x", number))
        rig.commit(loop)
        rig.commit(loop)
        assert loop._hosted.aborted == number
        assert rig.counts()[-1] == ("a", 2 * number)
        assert len(made) == number + 1
    rig.stop(loop)
    for thread in threading.enumerate():
        if thread.name == "close-producer":
            thread.join(PATIENCE_S)
    assert sorted(map(id, closed)) == sorted(map(id, made))


# ---- KAFKA-16699 ----


def test_an_id_that_the_broker_has_forgotten_is_taken_again_and_nothing_counts_twice(tmp_path: Path) -> None:
    """KAFKA-16699: the broker forgets an id that was not used for a week. Its error then ended the application, while
    being fenced does not."""
    rig = application(tmp_path)
    loop = rig.running()
    for number in range(3):
        rig.write("in", ("a", "x", number))
        settle(loop)
        rig.broker.forget_producers()
        rig.commit(loop)
        rig.commit(loop)
        assert not loop.finished.done(), loop.finished.result()
        assert loop._hosted.aborted == number + 1
    assert rig.counts() == [("a", 2), ("a", 4), ("a", 6)]
    assert rig.committed() == 3


class Refusing:
    """A client of librdkafka whose transactions end in this error."""

    def __init__(self, code: int) -> None:
        self.error = KafkaException(KafkaError(code, "told by the broker", txn_requires_abort=True))

    def init_transactions(self, *_: object) -> None:
        """Another takes the id."""

    def send_offsets_to_transaction(self, *_: object) -> None:
        raise self.error

    def commit_transaction(self, *_: object) -> None:
        raise self.error

    begin_transaction = abort_transaction = commit_transaction


@pytest.mark.parametrize(
    "code",
    [KafkaError.INVALID_PRODUCER_ID_MAPPING, KafkaError.PRODUCER_FENCED, KafkaError._FENCED,
     KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.UNKNOWN_PRODUCER_ID],
)  # fmt: skip
@pytest.mark.parametrize("step", ["begin", "commit", "abort"])
def test_a_lost_mapping_is_to_us_what_being_fenced_is(step: str, code: int) -> None:
    """KAFKA-16699, by librdkafka's own errors: the producer is spent, and another takes its id."""
    transactions = Transactions(Refusing(code), "nowhere:9092", SETTINGS)
    steps: dict[str, Callable[[], object]] = {
        "begin": transactions.begin,
        "commit": lambda: transactions.commit({TopicPartition("in", 0): CommittedOffset(1, "")}, b"").result(60),
        "abort": lambda: transactions.abort().result(60),
    }
    with pytest.raises(TransactionAbortedError) as raised:
        steps[step]()
    assert raised.value.producer_is_spent
