"""What a task reads is the coordinator's to say: topics may get partitions while the loop goes round."""

from __future__ import annotations

from pathlib import Path

import penstock as ps
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.topics import NewTopic
from tests.actors.rig import STRING, Rig, settle

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


def test_a_task_reads_what_the_coordinator_says_although_kafka_has_more(tmp_path: Path) -> None:
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


def test_the_status_says_from_the_moment_of_the_call_that_the_loop_stops(tmp_path: Path) -> None:
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
