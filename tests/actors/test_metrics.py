"""The metrics of an actor, its tasks, and their nodes, topics and stores."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

import penstock as ps
from penstock.actors.status import ActorStatus, TaskStatus
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.log import at_work
from penstock.common.measures import LATENCY_BOUNDS_MS, Distribution
from penstock.common.metric_names import NODE, STATE, TASK, THREAD, TOPIC, UPDATER
from penstock.common.topics import NewTopic
from penstock.kafka import counting
from penstock.kafka.counting import RECORD_OVERHEAD
from penstock.testing.fake_broker import FakeRecord
from tests.actors.rig import STRING, Rig, pass_through, settle

SOURCE, SINK = "KSTREAM-SOURCE-0000000000", "KSTREAM-SINK-0000000003"


def status_of(loop: Any) -> ActorStatus:
    asked = loop.status()
    if not asked.done():
        loop.step()
    status: ActorStatus = asked.result()
    return status


def task_of(loop: Any) -> TaskStatus:
    (task,) = status_of(loop).tasks
    return task


def numbers(measured: dict[tuple[str, ...], Any], group: str) -> dict[tuple[str, ...], float]:
    return {key[1:]: value for key, value in measured.items() if key[0] == group}


class SlowClock:
    """Each look at it takes 10 ms."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig

    def wall_ms(self) -> int:
        return self._rig.clock.now_ms

    def monotonic_s(self) -> float:
        self._rig.clock.now_ms += 10
        return self._rig.clock.now_ms / 1000

    def thread_cpu_s(self) -> float:
        return self._rig.clock.thread_cpu_s()


def test_records_are_counted_where_they_come_in_and_where_they_go_out(tmp_path: Path) -> None:
    rig = Rig(tmp_path, statestore_cache_max_bytes=0)
    loop = rig.running()
    rig.write("in", ("a", "xyz", 1), ("bc", "x", 2), ("a", None, 3))
    settle(loop)
    measured = task_of(loop).measured
    assert numbers(measured, TOPIC) == {
        ("records-consumed-total", SOURCE, "in"): 3,
        ("bytes-consumed-total", SOURCE, "in"): 3 * (RECORD_OVERHEAD + len("in")),  # the fake broker counts no bytes
        ("records-produced-total", SINK, "out"): 2,  # a null value is not counted
        ("bytes-produced-total", SINK, "out"): 2 * (RECORD_OVERHEAD + len("out") + 8) + 3,
    }
    assert measured[NODE, "process-total", SOURCE] == 3


def test_waiting_records_are_counted_as_waiting_not_as_processed_even_after_an_abort(tmp_path: Path) -> None:
    builder = ps.StreamsBuilder()
    other = builder.stream("other", ps.Consumed.with_(STRING, STRING))
    builder.stream("in", ps.Consumed.with_(STRING, STRING)).merge(other).to("out", ps.Produced.with_(STRING, STRING))
    config: dict[str, Any] = {
        "max_task_idle_ms": 10_000,
        "processing_guarantee": "exactly_once_v2",
        "commit_interval_ms": 1000,
    }
    rig = Rig(tmp_path, builder.build(), **config)
    rig.clients.admin().create_topics([NewTopic("other", 1)])
    loop = rig.running()
    rig.write("in", ("a", "x", 1), ("a", "x", 2))
    settle(loop)
    waiting = task_of(loop)
    source = "KSTREAM-SOURCE-0000000001"
    assert waiting.measured[TASK, "active-buffer-count"] == 2
    assert waiting.measured[TOPIC, "records-consumed-total", source, "in"] == 2
    assert waiting.measured[NODE, "process-total", source] == waiting.records_processed == 0
    rig.write("other", ("a", "x", 1))
    settle(loop)
    assert task_of(loop).measured[NODE, "process-total", source] == 1
    rig.coordinator.join()  # restarted: its earlier answers to the actor no longer hold
    rig.commit(loop)
    rig.clock.now_ms += 10_001
    settle(loop)
    given_up = task_of(loop)
    assert status_of(loop).aborted_transactions == 1
    assert given_up.measured[TOPIC, "records-consumed-total", source, "in"] == 4
    assert given_up.measured[NODE, "process-total", source] == 1 + 2


def test_a_sink_reports_the_ages_of_the_records_that_it_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(tmp_path, pass_through())
    loop = rig.running()
    task_of(loop)
    now = 1_795_253_400_000
    monkeypatch.setattr(counting, "time", SimpleNamespace(time=lambda: now / 1000))
    rig.write("in", ("a", "x", now - 3000), ("a", "x", now - 3000), ("b", "y", now + 60_000))
    rig.clock.now_ms += 5000
    settle(loop)
    first = task_of(loop).measured
    rig.clock.now_ms += 5000
    measured = task_of(loop).measured
    sink = "KSTREAM-SINK-0000000002"
    ages = measured[NODE, "record-e2e-latency", sink]
    assert isinstance(ages, Distribution)
    found = {(*LATENCY_BOUNDS_MS, 0)[at]: count for at, count in enumerate(ages.counts) if count}
    assert found == {5000: 2, 5: 1}, "one comes from the future, by its producer's clock"
    highest = measured[NODE, "record-e2e-latency-max", sink]
    assert isinstance(highest, float | int)
    assert highest == 3000
    assert measured[NODE, "record-e2e-latency-min", sink] == 0
    assert first[NODE, "record-e2e-latency", sink] == ages


def test_a_source_reports_how_old_records_are_when_they_are_read(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    rig.write("in", ("a", "x", rig.clock.now_ms - 700), ("a", "x", 1), ("a", "x", rig.clock.now_ms - 200))
    settle(loop)
    task_of(loop)
    rig.clock.now_ms += 3000
    measured = task_of(loop).measured
    # The first and the last record of each batch are measured.
    assert measured[NODE, "record-e2e-latency-max", SOURCE] == 700
    assert measured[NODE, "record-e2e-latency-min", SOURCE] == 200


def test_rates_latencies_and_ratios_are_those_of_the_last_half_minute(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    loop._clock = SlowClock(rig)
    status_of(loop)
    begun_ms = rig.clock.now_ms
    for _ in range(20):
        rig.write("in", ("a", "x", 1), ("b", "x", 2))
        settle(loop)
    status = status_of(loop)
    (task,) = status.tasks
    took_s = (rig.clock.now_ms - begun_ms) / 1000
    assert task.measured[TASK, "process-rate"] == pytest.approx(40 / took_s, rel=0.1)
    # 10 ms between the two looks at the clock, for two records.
    assert task.measured[TASK, "process-latency-avg"] == pytest.approx(5.0)
    assert task.measured[TASK, "process-latency-max"] == pytest.approx(5.0)
    assert task.measured[TASK, "process-ratio"] == pytest.approx(0.2 / took_s, rel=0.1)
    assert task.measured[TASK, "active-process-ratio"] == 1.0
    thread = numbers(status.measured, THREAD)
    assert thread["process-total",] == 40
    assert thread["process-rate",] == pytest.approx(40 / took_s, rel=0.1)
    assert thread["process-ratio",] == pytest.approx(0.2 / took_s, rel=0.1)
    assert (thread["process-records-avg",], thread["process-records-max",]) == (2, 2)
    assert thread["poll-records-max",] == 2
    assert thread["poll-total",] >= 20


def test_a_task_has_its_share_of_what_its_thread_spends_on_records(tmp_path: Path) -> None:
    rig = Rig(tmp_path, partitions=2)
    loop = rig.running()
    loop._clock = SlowClock(rig)
    status_of(loop)
    for partition in (0, 0, 0, 1):
        rig.write("in", ("a", "x", 1), partition=partition)
        settle(loop)
    shares = {task.task_id.partition: task.measured[TASK, "active-process-ratio"] for task in status_of(loop).tasks}
    assert shares == {0: pytest.approx(0.75), 1: pytest.approx(0.25)}


def test_tasks_that_come_and_go_are_counted_and_what_they_did_stays_in_the_thread(tmp_path: Path) -> None:
    rig = Rig(tmp_path, partitions=2)
    loop = rig.running()
    rig.write("in", ("a", "x", 1), partition=0)
    rig.write("in", ("a", "x", 1), partition=1)
    rig.commit(loop)
    rig.assign(loop, 2, TaskId(0, 1))
    settle(loop)
    thread = numbers(status_of(loop).measured, THREAD)
    assert (thread["task-created-total",], thread["task-closed-total",]) == (2, 1)
    assert thread["process-total",] == 2
    assert thread["thread-state",] == 4
    assert thread["thread-start-time",] == 1_000_000
    rig.stop(loop)
    assert numbers(status_of(loop).measured, THREAD)["thread-state",] == 6


def test_counters_continue_when_an_aborted_transaction_restarts_a_task(tmp_path: Path) -> None:
    rig = Rig(tmp_path, statestore_cache_max_bytes=0, processing_guarantee="exactly_once_v2", commit_interval_ms=1000)
    loop = rig.running()
    rig.write("in", ("a", "x", 1), ("a", None, 1))
    rig.commit(loop)
    before = task_of(loop)
    assert (before.records_processed, before.dropped_records) == (2, 1)
    rig.coordinator.join()  # restarted: its earlier answers to the actor no longer hold
    rig.write("in", ("a", "x", 2))
    rig.commit(loop)
    rig.commit(loop)
    status = status_of(loop)
    assert status.aborted_transactions == 1
    (task,) = status.tasks
    assert (task.records_processed, task.dropped_records) == (4, 1), "the last record was processed twice"
    assert task.measured[TOPIC, "records-consumed-total", SOURCE, "in"] == 4
    assert task.measured[TOPIC, "records-produced-total", SINK, "out"] == 3
    ages = task.measured[NODE, "record-e2e-latency", SINK]
    assert isinstance(ages, Distribution)
    assert sum(ages.counts) == 3
    thread = numbers(status.measured, THREAD)
    assert (thread["process-total",], thread["task-created-total",], thread["task-closed-total",]) == (4, 1, 0)


def test_records_that_are_lost_twice_in_an_aborted_transaction_are_lost_once(tmp_path: Path) -> None:
    rig = Rig(tmp_path, processing_guarantee="exactly_once_v2", commit_interval_ms=1000)
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    rig.commit(loop)
    rig.stop(loop)
    rig.write("in", *[("a", "x", 1)] * 4)
    rig.broker.delete_records(TopicPartition("in", 0), 3)
    loop = rig.running(epoch=2)
    lost = task_of(loop).lost_records
    rig.coordinator.join()
    rig.commit(loop)
    rig.commit(loop)
    assert status_of(loop).aborted_transactions == 1
    assert task_of(loop).lost_records == lost == 2


def test_punctuators_are_counted_by_either_clock_and_timed_by_the_wall_clock(tmp_path: Path) -> None:
    class Ticking(ps.Processor):  # type: ignore[type-arg]
        def init(self, context: ps.ProcessorContext) -> None:  # type: ignore[type-arg]
            context.schedule(1000, ps.PunctuationType.WALL_CLOCK_TIME, lambda _: None)
            context.schedule(10, ps.PunctuationType.STREAM_TIME, lambda _: None)

        def process(self, record: ps.Record[Any, Any]) -> None: ...

    builder = ps.StreamsBuilder()
    builder.stream("in", ps.Consumed.with_(STRING, STRING)).process(Ticking)
    rig = Rig(tmp_path, builder.build())
    loop = rig.running()
    status_of(loop)
    rig.write("in", ("a", "x", 0), ("a", "x", 10), ("a", "x", 20))
    settle(loop)
    for _ in range(4):
        rig.clock.now_ms += 1000
        settle(loop)
    status = status_of(loop)
    assert status.tasks[0].measured[TASK, "punctuate-total"] == 3 + 4
    assert numbers(status.measured, THREAD)["punctuate-total",] == 3 + 4
    assert status.tasks[0].measured[TASK, "punctuate-rate"] == pytest.approx(7 / 4)


def test_stores_report_what_they_hold_and_rocksdb_what_it_knows(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    rig.write("in", ("a", "x", 1), ("b", "x", 1))
    settle(loop)
    assert task_of(loop).measured[TASK, "cache-size-bytes-total"] == 2 * (1 + 8 + 65), "as Kafka Streams counts it"
    rig.commit(loop)
    rig.clock.now_ms += 5000
    measured = task_of(loop).measured
    assert measured[TASK, "cache-size-bytes-total"] == 0
    stores = {key: value for key, value in numbers(measured, STATE).items() if key[1] == "counts"}
    assert stores["estimate-num-keys", "counts"] == 2
    assert stores["num-entries-active-mem-table", "counts"] == 2
    assert stores["cache-misses-total", "counts"] == 2
    assert stores["num-open-iterators", "counts"] == 0
    for stall in ("write-stall-duration-total", "actual-delayed-write-rate", "is-write-stopped"):
        assert stores[stall, "counts"] == 0, "RocksDB reports it"
    assert stores["block-cache-capacity", "counts"] > 0


def test_suppress_reports_how_many_updates_wait(tmp_path: Path) -> None:
    builder = ps.StreamsBuilder()
    (
        builder.stream("in", ps.Consumed.with_(STRING, STRING))
        .group_by_key()
        .count(ps.Materialized.as_("counts").with_store_type(ps.StoreType.IN_MEMORY))
        .suppress(ps.Suppressed.until_time_limit(10_000, ps.BufferConfig.unbounded()).with_name("later"))
        .to_stream()
        .to("out", ps.Produced.with_(STRING, ps.Serdes.long()))
    )
    rig = Rig(tmp_path, builder.build(), statestore_cache_max_bytes=0)
    rig.clients.admin().create_topics([NewTopic("app-later-store-changelog", 1)])
    loop = rig.running()
    task_of(loop)
    rig.write("in", ("a", "x", 1), ("b", "x", 1), ("c", "x", 1))
    rig.commit(loop)
    for _ in range(2):
        rig.clock.now_ms += 5000
        task_of(loop)
    state = numbers(task_of(loop).measured, STATE)
    assert state["suppression-buffer-count-max", "later-store"] == 3
    assert state["suppression-buffer-size-max", "later-store"] > 0
    assert state["num-keys", "counts"] == 3


def test_a_task_reports_the_next_offset_of_each_source(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    assert task_of(loop).positions == {TopicPartition("in", 0): 0}
    rig.write("in", ("a", "x", 1), ("b", "x", 2))
    settle(loop)
    assert task_of(loop).positions == {TopicPartition("in", 0): 2}
    assert numbers(status_of(loop).measured, UPDATER) == {("restore-records-rate",): 0}


def test_a_line_that_is_logged_while_a_task_is_at_work_names_it(tmp_path: Path) -> None:
    rig = Rig(tmp_path, partitions=2, deserialization_exception_handler=ps.LogAndContinue())
    loop = rig.loop()
    rig.assign(loop, 1, TaskId(0, 0), TaskId(0, 1))
    at_work(loop._task_at_work)  # as its thread does
    try:
        settle(loop)
        rig.broker.append("in", FakeRecord(b"k", b"\xff", 1, None), 1)
        with capture_logs() as lines:
            settle(loop)
    finally:
        at_work(lambda: None)
    assert [(line["event"], line["task"]) for line in lines] == [("record dropped", "0_1")]
