"""A task reports keys that do not lie where Kafka's default partitioner puts them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from structlog.testing import capture_logs

import penstock as ps
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.status import TaskStatus
from penstock.common.errors import KafkaRefusedError
from penstock.common.ids import TaskId
from penstock.common.metric_names import TASK, TOPIC
from penstock.common.murmur2 import partition_for
from penstock.common.partitioners import Partitioner
from penstock.common.topics import NewTopic
from penstock.testing.fake_clients import FakeAdmin
from penstock.testing.fake_producers import FakeProducer
from tests.actors.rig import STRING, Rig, count_topology, pass_through, settle

PARTITIONS = 4
KEYS = [f"key-{number}" for number in range(60)]
Place = Callable[[bytes, int], int]


def by_crc32(key: bytes, partitions: int) -> int:
    return crc32(key) % partitions


def by_length(key: bytes, partitions: int) -> int:
    return len(key) % partitions


def write(rig: Rig, topic: str, place: Place, keys: list[str] = KEYS) -> None:
    for key in keys:
        rig.write(topic, (key, "v", 1), partition=place(key.encode(), PARTITIONS))


def join() -> ps.Topology:
    """``in``, a stream, with the table of ``other``."""
    builder = ps.StreamsBuilder()
    table = builder.table("other", ps.Consumed.with_(STRING, STRING))
    stream = builder.stream("in", ps.Consumed.with_(STRING, STRING))
    stream.join(table, lambda left, right: left + right).to("out", ps.Produced.with_(STRING, STRING))
    return builder.build()


def joined_rig(tmp_path: Path, **config: Any) -> Rig:
    rig = Rig(tmp_path, join(), PARTITIONS, **config)
    stores = [store.name for store in rig.spec.topology.store_builders.values()]
    names = ["other", *(f"app-{store}-changelog" for store in stores)]
    rig.clients.admin().create_topics([NewTopic(name, PARTITIONS) for name in names])
    return rig


def tasks_of(loop: StreamLoop) -> list[TaskStatus]:
    asked = loop.status()
    settle(loop)
    return list(asked.result().tasks)


def warnings_of(run: Callable[[], object]) -> list[dict[str, Any]]:
    with capture_logs() as logs:
        run()
    return [dict(line) for line in logs if line["log_level"] == "warning" and "partitioner" in str(line)]


@pytest.mark.parametrize(
    ("place", "found", "words"),
    [
        (by_crc32, Partitioner.CRC32, "was written by librdkafka's default partitioner (CRC32)"),
        (by_length, Partitioner.UNKNOWN, "was written by a partitioner of its own, or several"),
    ],
)
def test_each_task_warns_once_of_a_topic_that_another_partitioner_wrote(
    tmp_path: Path, place: Place, found: Partitioner, words: str
) -> None:
    rig = Rig(tmp_path, count_topology(), PARTITIONS)
    write(rig, "in", place)
    loops = []
    reported = warnings_of(lambda: loops.append(rig.running()))
    (loop,) = loops
    found_by = {task.task_id.partition for task in tasks_of(loop) if task.partitioners == {"in": found}}
    assert found_by
    assert {line["partition"] for line in reported} == found_by
    assert all(words in line["event"] and line["topic"] == "in" for line in reported), reported
    assert len(reported) == len(found_by)
    assert not any(task.parted for task in tasks_of(loop))

    def more() -> None:
        write(rig, "in", place)
        settle(loop)

    assert warnings_of(more) == []
    rig.stop(loop)


def test_kafkas_default_partitioner_is_not_warned_of(tmp_path: Path) -> None:
    rig = Rig(tmp_path, count_topology(), PARTITIONS)
    write(rig, "in", partition_for)
    loops = []
    assert warnings_of(lambda: loops.append(rig.running())) == []
    assert not any(task.partitioners for task in tasks_of(loops[0]))


def test_null_and_empty_keys_and_topics_whose_keys_do_not_matter_report_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "1", count_topology(), PARTITIONS)
    for partition in range(PARTITIONS):
        rig.write("in", (None, "v", 1), ("", "v", 1), partition=partition)
    assert warnings_of(rig.running) == []
    rig = Rig(tmp_path / "2", pass_through(), PARTITIONS)
    write(rig, "in", by_crc32)
    assert warnings_of(rig.running) == []
    rig = Rig(tmp_path / "3", count_topology(), 1)
    rig.write("in", *((key, "v", 1) for key in KEYS))
    assert warnings_of(rig.running) == []


def test_a_join_of_topics_of_two_partitioners_is_reported_as_an_error(tmp_path: Path) -> None:
    rig = joined_rig(tmp_path)
    write(rig, "in", by_crc32)
    write(rig, "other", partition_for)
    loops = []
    reported = warnings_of(lambda: loops.append(rig.running()))
    (loop,) = loops
    joins = [line for line in reported if line["event"].startswith("RESULTS ARE MISSING")]
    assert joins
    for line in joins:
        assert line["topics"] == ["in", "other"]
        assert line["partitioners"] == ["crc32", "murmur2"]
        assert "'in' by librdkafka's default partitioner (CRC32)" in line["event"]
        assert "partitioner=murmur2_random" in line["event"]
    parted = [task for task in tasks_of(loop) if task.parted == (("in", "other"),)]
    assert {task.task_id.partition for task in parted} == {line["partition"] for line in joins}
    for task in parted:
        assert task.measured[TASK, "parted-joins"] == 1
        misplaced = task.measured[TOPIC, "misplaced-keys-total", "KSTREAM-SOURCE-0000000003", "in"]
        assert isinstance(misplaced, int)
        assert misplaced > 0
    assert len(rig.broker.records("out")) < len(KEYS), "that is what the warning is about"


def test_a_join_of_topics_that_crc32_placed_alike_is_complete_and_is_not_reported_as_a_failing_join(
    tmp_path: Path,
) -> None:
    rig = joined_rig(tmp_path)
    write(rig, "other", by_crc32)
    write(rig, "in", by_crc32)
    loops = []
    reported = warnings_of(lambda: loops.append(rig.running()))
    assert {line["topic"] for line in reported} == {"in", "other"}
    assert not any(task.parted for task in tasks_of(loops[0]))


def test_a_mismatch_is_an_error_if_that_is_wanted(tmp_path: Path) -> None:
    rig = Rig(tmp_path, count_topology(), PARTITIONS, partitioner_mismatch="fail")
    write(rig, "in", by_crc32)
    loop = rig.loop()
    rig.assign(loop, 1, *(TaskId(0, number) for number in range(PARTITIONS)))
    settle(loop)
    reported = loop.finished.result() or ""
    assert "PartitionerMismatchError: task 0_0: topic 'in', partition 0: keys such as" in reported
    assert "partitioner.mismatch=fail" in reported


def test_a_topic_that_gets_partitions_is_not_judged_by_their_former_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path, count_topology(), PARTITIONS, partitioner_mismatch="fail")
    write(rig, "in", partition_for, KEYS[:20])
    loop = rig.running()
    monkeypatch.setattr(FakeAdmin, "topics", lambda _: {"in": PARTITIONS + 2})
    for key in KEYS:
        if (partition := partition_for(key.encode(), PARTITIONS + 2)) < PARTITIONS:
            rig.write("in", (key, "v", 1), partition=partition)
    assert warnings_of(lambda: settle(loop)) == []
    assert not loop.finished.done()
    assert not any(task.partitioners for task in tasks_of(loop))


def test_a_producer_that_may_not_describe_source_topics_ends_no_actor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path, count_topology(), PARTITIONS)
    write(rig, "in", by_crc32)
    loop = rig.loop()
    monkeypatch.setattr(FakeProducer, "partitions", refuse)
    rig.assign(loop, 1, *(TaskId(0, number) for number in range(PARTITIONS)))
    assert warnings_of(lambda: settle(loop)), "the admin client may"
    assert not loop.finished.done()


def test_source_topics_that_nobody_may_describe_are_not_watched_and_that_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path, count_topology(), PARTITIONS)
    write(rig, "in", by_crc32)
    loop = rig.loop()
    monkeypatch.setattr(FakeAdmin, "topics", refuse)
    rig.assign(loop, 1, TaskId(0, 0))
    first = warnings_of(lambda: settle(loop))
    assert [(line["topics"], "Describe" in line["event"]) for line in first] == [(["in"], True)]
    rig.assign(loop, 2, TaskId(0, 0), TaskId(0, 1))
    assert warnings_of(lambda: settle(loop)) == []
    assert not loop.finished.done()
    assert len(tasks_of(loop)) == 2


def refuse(*_: object) -> dict[str, int]:
    raise KafkaRefusedError("cannot ask for topic 'in': Broker: Topic authorization failed")


def test_any_other_consequence_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ps.ConfigError, match=r"partitioner\.mismatch"):
        Rig(tmp_path, partitioner_mismatch="ignore")
