"""The start of a stream loop: committed offsets, stores, changelogs. On the fake broker, one step at a time."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import penstock as ps
from penstock.actors.status import TaskState
from penstock.common.ids import CommittedOffset, TaskId, TopicPartition
from penstock.common.topics import NewTopic
from tests.actors.rig import (
    APPLICATION,
    CHANGELOG,
    STRING,
    Rig,
    count_of,
    key_query,
    pass_through,
    query,
    settle,
    states,
)

# ---- starting ----


def test_a_restart_continues_from_the_committed_offsets_and_the_stored_state(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.write("in", ("a", "x", 1), ("a", "x", 2))
    rig.stop(rig.running())
    assert rig.committed() == 2
    rig.write("in", ("a", "x", 3))
    loop = rig.running()
    assert count_of(loop, "a") == 3
    rig.stop(loop)
    assert rig.counts() == [("a", 2), ("a", 3)]


def test_the_tasks_of_a_sub_topology_share_its_program(tmp_path: Path) -> None:
    rig = Rig(tmp_path, partitions=2)
    loop = rig.running(TaskId(0, 0))
    first = loop._tasks[TaskId(0, 0)].state_manager.program
    rig.assign(loop, 2, TaskId(0, 1))
    settle(loop)
    assert list(loop._tasks) == [TaskId(0, 1)]
    assert loop._tasks[TaskId(0, 1)].state_manager.program is first


def test_state_that_is_lost_comes_back_from_the_changelog(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "one")
    rig.write("in", *((f"k{number}", "x", number + 1) for number in range(2000)))
    rig.stop(rig.running())
    other = Rig(tmp_path / "two")
    rig.spec = other.spec
    loop = rig.loop()
    rig.assign(loop, 1, TaskId(0, 0))
    seen: set[TaskState] = set()
    for _ in range(200):
        loop.step()
        seen.update(states(loop).values())
    assert seen == {TaskState.CREATED, TaskState.RESTORING, TaskState.RUNNING}
    assert count_of(loop, "k0") == 1
    assert count_of(loop, "k1999", committed=True) == 1


def test_a_store_that_is_only_behind_gets_the_tail(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.write("in", ("a", "x", 1), ("b", "x", 1))
    rig.stop(rig.running())
    # As if another owner had written this and committed its offsets before it was killed.
    rig.clients.producer().flush(1)
    producer = rig.clients.producer()
    producer.send(CHANGELOG, b"a", (7).to_bytes(8, "big"), 5, None, 0)
    producer.send(CHANGELOG, b"b", None, 5, None, 0)
    producer.flush(1)
    loop = rig.running()
    assert count_of(loop, "a") == 7
    assert count_of(loop, "b") is None


def test_killed_between_changelog_and_store_the_rest_is_restored(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.write("in", ("a", "x", 1))
    loop = rig.running()
    rig.commit(loop)
    rig.write("in", ("a", "x", 2), ("a", "x", 3))
    settle(loop)
    rig.coordinator.hold()
    rig.commit(loop)
    assert rig.coordinator.held
    # Kafka takes the offsets, but the answer never reaches the actor, which is killed: its database is released.
    request, _ = rig.coordinator.held[0]
    with rig.broker.changed:
        rig.broker.group(APPLICATION).offsets.update(
            {tp: CommittedOffset(*position) for tp, position in request.offsets.items()}
        )
    for hosted in loop._tasks.values():
        hosted.state_manager.close()
    rig.coordinator.held = None
    again = rig.running(epoch=2)
    assert count_of(again, "a") == 3
    assert rig.committed() == 3


def test_a_store_beyond_the_end_of_its_changelog_is_wiped_and_restored(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.write("in", *(("a", "x", number + 1) for number in range(3)))
    rig.stop(rig.running())
    rig.clients.admin().delete_topics([CHANGELOG, "in"])
    rig.clients.admin().create_topics([NewTopic(CHANGELOG, 1), NewTopic("in", 1)])
    rig.clients.admin().commit(APPLICATION, {TopicPartition("in", 0): CommittedOffset(0)})
    rig.write("in", ("b", "x", 1))
    loop = rig.running()
    assert count_of(loop, "a") is None
    assert count_of(loop, "b") == 1


def test_a_committed_offset_that_is_gone_falls_back_on_the_reset_policy(tmp_path: Path) -> None:
    rig = Rig(tmp_path, pass_through())
    rig.write("in", *((None, f"v{number}", number + 1) for number in range(10)))
    rig.clients.admin().commit(APPLICATION, {TopicPartition("in", 0): CommittedOffset(2)})
    rig.clients.admin().delete_records({TopicPartition("in", 0): 5})
    rig.running()
    assert [record.value for record in rig.broker.records("out")] == [b"V5", b"V6", b"V7", b"V8", b"V9"]


def test_without_committed_offsets_latest_skips_what_is_there(tmp_path: Path) -> None:
    rig = Rig(tmp_path, pass_through("latest"))
    rig.write("in", (None, "before", 1))
    loop = rig.running()
    rig.write("in", (None, "after", 2))
    settle(loop)
    assert [record.value for record in rig.broker.records("out")] == [b"AFTER"]


def test_without_committed_offsets_a_duration_begins_at_records_of_that_age(tmp_path: Path) -> None:
    rig = Rig(tmp_path, pass_through(ps.AutoOffsetReset.by_duration(timedelta(seconds=10))), partitions=3)
    now = rig.clock.wall_ms()
    rig.write("in", (None, "old", now - 10_001), (None, "young", now - 10_000), (None, "late", 1), partition=0)
    rig.write("in", (None, "all old", 1), partition=1)
    loop = rig.running()
    assert [record.value for record in rig.broker.records("out")] == [b"YOUNG", b"LATE"]
    rig.write("in", (None, "after", 2), partition=1)
    rig.write("in", (None, "first", 3), partition=2)
    settle(loop)
    assert sorted(record.value or b"" for record in rig.broker.records("out")) == [
        b"AFTER",
        b"FIRST",
        b"LATE",
        b"YOUNG",
    ]


def test_a_committed_offset_that_is_gone_falls_back_on_a_duration(tmp_path: Path) -> None:
    rig = Rig(tmp_path, pass_through(ps.AutoOffsetReset.by_duration(10_000)))
    now = rig.clock.wall_ms()
    rig.write("in", *((None, f"v{number}", now - 20_000 + 4000 * number) for number in range(6)))
    rig.clients.admin().commit(APPLICATION, {TopicPartition("in", 0): CommittedOffset(1)})
    rig.clients.admin().delete_records({TopicPartition("in", 0): 2})
    rig.running()
    assert [record.value for record in rig.broker.records("out")] == [b"V3", b"V4", b"V5"]


def test_a_duration_longer_than_the_clock_begins_with_the_first_record(tmp_path: Path) -> None:
    rig = Rig(tmp_path, pass_through(ps.AutoOffsetReset.by_duration(timedelta(days=100_000))))
    rig.write("in", (None, "first", 1))
    rig.running()
    assert [record.value for record in rig.broker.records("out")] == [b"FIRST"]


def failure_of(rig: Rig) -> str:
    """Returns the error with which a loop fails at its start."""
    loop = rig.loop()
    rig.assign(loop, 1, TaskId(0, 0))
    settle(loop)
    return loop.finished.result(0) or "no error"


def test_with_no_reset_a_start_needs_a_committed_offset(tmp_path: Path) -> None:
    rig = Rig(tmp_path, pass_through(ps.AutoOffsetReset.none()))
    rig.write("in", (None, "before", 1), (None, "after", 2))
    assert "no offset is committed for partition 0 of topic 'in', and its offset reset is none" in failure_of(rig)
    rig.clients.admin().commit(APPLICATION, {TopicPartition("in", 0): CommittedOffset(1)})
    rig.running()
    assert [record.value for record in rig.broker.records("out")] == [b"AFTER"]


def test_with_no_reset_a_committed_offset_that_is_gone_is_an_error(tmp_path: Path) -> None:
    rig = Rig(tmp_path, pass_through("none"))
    rig.write("in", *((None, f"v{number}", number + 1) for number in range(4)))
    rig.clients.admin().commit(APPLICATION, {TopicPartition("in", 0): CommittedOffset(1)})
    rig.clients.admin().delete_records({TopicPartition("in", 0): 2})
    assert "begins with offset 2: its records from offset 1 on were deleted" in failure_of(rig)


def test_topics_that_are_merged_may_differ_in_their_partitions(tmp_path: Path) -> None:
    builder = ps.StreamsBuilder()
    consumed = ps.Consumed.with_(STRING, STRING)
    merged = builder.stream("in", consumed).merge(builder.stream("narrow", consumed))
    merged.to("out", ps.Produced.with_(STRING, STRING))
    rig = Rig(tmp_path, builder.build(), partitions=2)
    rig.clients.admin().create_topics([NewTopic("narrow", 1)])
    rig.write("in", (None, "wide", 1), partition=1)
    rig.running()
    assert [record.value for record in rig.broker.records("out")] == [b"wide"]


def test_a_table_restored_from_a_narrow_source_topic_is_empty_in_tasks_beyond_it(tmp_path: Path) -> None:
    builder = ps.StreamsBuilder()
    consumed = ps.Consumed.with_(STRING, STRING)
    table = builder.table("narrow", consumed, ps.Materialized.as_("table"))
    merged = table.to_stream().merge(builder.stream("in", consumed))
    merged.to("out", ps.Produced.with_(STRING, STRING))
    rig = Rig(tmp_path, builder.build({"topology.optimization": "all"}), partitions=2)
    assert rig.spec.topology.store_builders["table"].source_topic == "narrow"
    rig.clients.admin().create_topics([NewTopic("narrow", 1)])
    rig.write("in", ("k", "wide", 1), partition=1)
    rig.write("narrow", ("k", "narrow", 1), partition=0)
    loop = rig.running()
    rig.commit(loop)
    assert sorted(record.value or b"" for record in rig.broker.records("out")) == [b"narrow", b"wide"]
    rig.stop(loop)
    assert query(rig.running(), key_query("k", store="table"))[0].rows == ((b"k", "narrow", 1),)


def test_a_broker_that_is_away_at_the_start_is_waited_for(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.write("in", ("a", "x", 1))
    loop = rig.loop()
    rig.broker.down = True
    rig.assign(loop, 1, TaskId(0, 0))
    for _ in range(20):
        loop.step()
    assert not loop.finished.done()
    rig.broker.down = False
    settle(loop)
    assert count_of(loop, "a") == 1


def test_stores_that_a_dying_process_still_holds_are_waited_for(tmp_path: Path) -> None:
    rig = Rig(tmp_path, partitions=2)
    dying = rig.running(TaskId(0, 0))
    loop = rig.loop()
    rig.assign(loop, 2, TaskId(0, 0))
    settle(loop)
    assert states(loop) == {}
    rig.stop(dying)
    settle(loop)
    assert states(loop) == {TaskId(0, 0): TaskState.RUNNING}


def test_corrupt_stores_are_deleted_and_restored(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.write("in", ("a", "x", 1))
    rig.stop(rig.running())
    for file in (tmp_path / APPLICATION / "0_0" / "rocksdb").glob("MANIFEST-*"):
        file.unlink()
    assert count_of(rig.running(), "a") == 1


def unlogged_topology() -> ps.Topology:
    builder = ps.StreamsBuilder()
    grouped = builder.stream("in", ps.Consumed.with_(STRING, STRING)).group_by_key()
    grouped.count(ps.Materialized.as_("counts").with_logging_disabled())
    return builder.build()


def test_corrupt_stores_without_a_changelog_are_never_deleted(tmp_path: Path) -> None:
    rig = Rig(tmp_path, unlogged_topology())
    rig.write("in", ("a", "x", 1))
    rig.stop(rig.running())
    directory = tmp_path / APPLICATION / "0_0" / "rocksdb"
    current = (directory / "CURRENT").read_text()
    (directory / "CURRENT").write_text("damaged")
    loop = rig.loop()
    rig.assign(loop, 1, TaskId(0, 0))
    settle(loop)
    error = loop.finished.result() or ""
    assert "Nothing was deleted, because counts cannot be restored from a changelog" in error
    (directory / "CURRENT").write_text(current)
    assert count_of(rig.running(), "a") == 1


def test_stores_that_cannot_be_opened_for_another_reason_than_corruption_are_left_alone(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.write("in", ("a", "x", 1))
    rig.stop(rig.running())
    directory = tmp_path / APPLICATION / "0_0" / "rocksdb"
    directory.rename(tmp_path / "away")
    directory.write_text("in the way")
    loop = rig.loop()
    rig.assign(loop, 1, TaskId(0, 0))
    settle(loop)
    assert "nothing was deleted" in (loop.finished.result() or "")
    assert directory.read_text() == "in the way"
