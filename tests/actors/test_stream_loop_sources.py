"""The coordinator decides which partitions a task reads: topics may get partitions while the loop runs."""

from __future__ import annotations

from pathlib import Path

import penstock as ps
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.topics import NewTopic
from tests.actors.rig import APPLICATION, STRING, Rig, settle

TASK = TaskId(0, 1)
IN, MORE = TopicPartition("in", 1), TopicPartition("more", 1)


def merging(state_dir: Path) -> Rig:
    builder = ps.StreamsBuilder()
    strings = ps.Consumed.with_(STRING, STRING)
    merged = builder.stream("in", strings).merge(builder.stream("more", strings))
    merged.to("out", ps.Produced.with_(STRING, STRING))
    rig = Rig(state_dir, builder.build(), partitions=2)
    rig.clients.admin().create_topics([NewTopic("more", 2)])
    return rig


def test_a_task_reads_the_partitions_that_the_coordinator_assigns_although_kafka_has_more(tmp_path: Path) -> None:
    rig = merging(tmp_path)
    loop = rig.loop()
    rig.write("in", ("a", "1", 1), partition=1)
    rig.write("more", ("b", "2", 2), partition=1)
    loop.assign(1, {TASK: frozenset({IN})})
    settle(loop)
    assert [record.value for record in rig.broker.records("out")] == [b"1"]


def test_a_task_that_is_to_read_more_is_committed_and_opened_again_before_the_confirmation_counts(
    tmp_path: Path,
) -> None:
    rig = merging(tmp_path)
    loop = rig.loop()
    rig.write("in", ("a", "1", 1), partition=1)
    rig.write("more", ("b", "2", 2), partition=1)
    loop.assign(1, {TASK: frozenset({IN})})
    settle(loop)
    rig.coordinator.hold()
    again = loop.assign(2, {TASK: frozenset({IN, MORE})})
    settle(loop)
    assert not again.done()
    rig.coordinator.release()
    settle(loop)
    assert again.done()
    assert rig.committed(1) == 1
    assert sorted(record.value or b"" for record in rig.broker.records("out")) == [b"1", b"2"]


def joining(state_dir: Path) -> tuple[Rig, StreamLoop]:
    """Returns two tasks that join ``in`` with a table, and have read nothing."""
    builder = ps.StreamsBuilder()
    table = builder.table("table", ps.Consumed.with_(STRING, STRING))
    stream = builder.stream("in", ps.Consumed.with_(STRING, STRING))
    stream.left_join(table, lambda left, right: f"{left} {right}").to("out", ps.Produced.with_(STRING, STRING))
    rig = Rig(state_dir, builder.build(), partitions=2)
    store = next(iter(rig.spec.topology.store_builders))
    rig.clients.admin().create_topics([NewTopic("table", 2), NewTopic(f"{APPLICATION}-{store}-changelog", 2)])
    loop = rig.running()
    settle(loop)
    return rig, loop


def joined(rig: Rig, key: bytes) -> list[bytes | None]:
    return [record.value for record in rig.broker.records("out") if record.key == key]


def test_a_partition_that_has_grown_holds_back_later_records_although_a_fetch_brings_only_those_of_another_task(
    tmp_path: Path,
) -> None:
    rig, loop = joining(tmp_path)
    rig.write("in", ("a", "first", 10), partition=0)
    rig.write("table", ("a", "later", 30), partition=0)
    assert loop._fetch()
    rig.write("in", ("a", "second", 20), partition=0)
    rig.write("in", ("b", "other", 5), partition=1)
    loop._consumer.pause([TopicPartition("in", 0)])  # the client gives those of the other task first
    assert loop._fetch()
    loop.step()
    assert joined(rig, b"b") == [b"other None"], "the other task does not wait"
    loop._consumer.resume([TopicPartition("in", 0)])
    settle(loop)
    assert joined(rig, b"a") == [b"first None", b"second None"]


def test_a_partition_that_has_grown_since_the_last_fetch_holds_back_later_records(tmp_path: Path) -> None:
    rig, loop = joining(tmp_path)
    rig.write("in", ("a", "first", 10), partition=0)
    rig.write("table", ("a", "later", 30), partition=0)
    assert loop._fetch()
    rig.write("in", ("a", "second", 20), partition=0)
    loop._process(rig.clock.wall_ms())  # as while a task has plenty of records: then nothing is fetched
    settle(loop)
    assert joined(rig, b"a") == [b"first None", b"second None"]


def test_the_status_reports_from_the_call_of_stop_on_that_the_loop_is_stopping(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    assert not loop.status().cancelled()
    stopped = loop.stop()
    status = loop.status()
    loop.step()
    assert status.result().stopping
    settle(loop)
    assert stopped.done()
    assert loop.status().result().stopping
