"""The stream loop on the fake broker, one step at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock.actors.loop.stream_loop import IDLE_WAIT_S
from penstock.actors.status import TaskState
from penstock.common.errors import ApplicationStateError
from penstock.common.ids import CommittedOffset, TaskId, TopicPartition
from penstock.common.topics import NewTopic
from penstock.tasks.commit_coverage import covered, without_coverage
from tests.actors.rig import (
    APPLICATION,
    CHANGELOG,
    LONG,
    STRING,
    Rig,
    count_of,
    key_query,
    pass_through,
    settle,
    states,
)

# ---- processing and committing ----


def test_records_are_processed_and_committed_on_the_interval(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.write("in", ("a", "x", 1), ("b", "x", 2), ("a", "x", 3))
    loop = rig.running()
    assert count_of(loop, "a") == 2
    assert count_of(loop, "a", committed=True) is None
    assert rig.committed() is None
    assert rig.counts() == []
    rig.commit(loop)
    assert count_of(loop, "a", committed=True) == 2
    assert rig.committed() == 3
    assert sorted(rig.counts()) == [("a", 2), ("b", 1)]
    assert sorted(rig.counts(CHANGELOG)) == [("a", 2), ("b", 1)]


def test_nothing_is_committed_when_nothing_happened(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    rig.commit(loop)
    rig.commit(loop)
    assert rig.coordinator.requests == []
    rig.write("in", ("a", "x", 1))
    rig.commit(loop)
    rig.commit(loop)
    (request,) = rig.coordinator.requests
    assert request.offsets.keys() == {TopicPartition("in", 0)}
    offset = CommittedOffset(*request.offsets[TopicPartition("in", 0)])
    assert without_coverage(offset, ["counts"]) == CommittedOffset(1, "AgAAAAAAAAAB")
    assert covered([offset], ["counts"]) == {"counts": 1}


def test_a_committed_offset_of_zero_is_not_committed_again_and_again(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.clients.admin().commit(APPLICATION, {TopicPartition("in", 0): CommittedOffset(0)})
    loop = rig.running()
    rig.commit(loop)
    assert rig.coordinator.requests == []
    for _ in range(2):
        rig.write("in", ("a", "x", 1))
        rig.commit(loop)
    assert [request.number for request in rig.coordinator.requests] == [1, 2]


def test_dropped_records_are_committed_too(tmp_path: Path) -> None:
    rig = Rig(tmp_path, default_timestamp_extractor=ps.LogAndSkipOnInvalidTimestamp())
    rig.write("in", ("a", "x", -1))
    loop = rig.running()
    rig.commit(loop)
    assert rig.committed() == 1


def test_a_cache_that_is_full_brings_the_commit_forward(tmp_path: Path) -> None:
    rig = Rig(tmp_path, statestore_cache_max_bytes=1000)
    loop = rig.running()
    rig.write("in", *((f"key-{number}", "x", number + 1) for number in range(50)))
    settle(loop)
    assert rig.committed() is not None


def test_updates_that_take_too_much_memory_bring_the_commit_forward_whatever_the_cache_may_hold(tmp_path: Path) -> None:
    rig = Rig(tmp_path, statestore_cache_max_bytes=1 << 30, statestore_memory_max_bytes=1 << 20)
    loop = rig.running()
    rig.write("in", *((f"key-{number}", "x", number + 1) for number in range(3000)))
    settle(loop)
    assert rig.committed() is None
    rig.write("in", *((f"more-{number}", "x", number + 1) for number in range(3000)))
    settle(loop)
    assert rig.committed() is not None


def test_without_a_cache_what_waits_for_a_commit_is_bounded_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.state.write_buffer.memory_budget.UNCACHED_BYTES", 1000)
    rig = Rig(tmp_path, statestore_cache_max_bytes=0)
    loop = rig.running()
    rig.write("in", *((f"key-{number}", "x", number + 1) for number in range(50)))
    settle(loop)
    assert rig.committed() is not None


def test_a_processor_that_asks_for_a_commit_gets_it_soon(tmp_path: Path) -> None:
    class Asking(ps.Processor[str, str, str, str]):
        def init(self, context: ps.ProcessorContext[str, str]) -> None:
            self.context = context

        def process(self, record: ps.Record[str, str]) -> None:
            if record.value == "commit":
                self.context.commit()

    builder = ps.StreamsBuilder()
    builder.stream("in", ps.Consumed.with_(STRING, STRING)).process(Asking)
    rig = Rig(tmp_path, builder.build())
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    settle(loop)
    assert rig.committed() is None
    rig.write("in", ("a", "commit", 1))
    settle(loop)
    assert rig.committed() == 2
    assert len(rig.coordinator.requests) == 1


def test_wall_clock_punctuators_are_called_without_records(tmp_path: Path) -> None:
    class Ticking(ps.Processor[str, str, str, str]):
        def init(self, context: ps.ProcessorContext[str, str]) -> None:
            context.schedule(
                100,
                ps.PunctuationType.WALL_CLOCK_TIME,
                lambda now: context.forward(ps.Record("tick", str(now), now)),
            )

        def process(self, record: ps.Record[str, str]) -> None:
            raise AssertionError("there are no records")

    builder = ps.StreamsBuilder()
    stream = builder.stream("in", ps.Consumed.with_(STRING, STRING)).process(Ticking)
    stream.to("out", ps.Produced.with_(STRING, STRING))
    rig = Rig(tmp_path, builder.build())
    loop = rig.running()
    rig.clock.now_ms += 100
    settle(loop)
    assert [record.value for record in rig.broker.records("out")] == [b"1000100"]


def test_an_idle_loop_waits_for_commands_longer_and_longer_up_to_a_limit(tmp_path: Path) -> None:
    loop = Rig(tmp_path).running()
    waits = [loop.step() for _ in range(10)]
    assert 0 < waits[0] < waits[-1] == IDLE_WAIT_S


def test_a_task_with_two_inputs_goes_by_their_timestamps(tmp_path: Path) -> None:
    builder = ps.StreamsBuilder()
    table = builder.table("table", ps.Consumed.with_(STRING, STRING))
    stream = builder.stream("in", ps.Consumed.with_(STRING, STRING))
    joined = stream.left_join(table, lambda left, right: f"{left}{right}")
    joined.to("out", ps.Produced.with_(STRING, STRING))
    rig = Rig(tmp_path, builder.build())
    store = next(iter(rig.spec.topology.store_builders))
    rig.clients.admin().create_topics([NewTopic("table", 1), NewTopic(f"{APPLICATION}-{store}-changelog", 1)])
    rig.write("in", ("a", "l1", 10), ("a", "l2", 30))
    rig.write("table", ("a", "r1", 5), ("a", "r2", 20), ("a", "r3", 40))
    rig.running()
    loop_output = [record.value for record in rig.broker.records("out")]
    assert loop_output == [b"l1r1", b"l2r2"]


def test_a_record_waits_for_all_that_the_broker_has_of_another_input_that_was_read_to_its_end_before(
    tmp_path: Path,
) -> None:
    builder = ps.StreamsBuilder()
    table = builder.table("table", ps.Consumed.with_(STRING, STRING))
    stream = builder.stream("in", ps.Consumed.with_(STRING, STRING))
    stream.join(table, lambda left, right: f"{left}{right}").to("out", ps.Produced.with_(STRING, STRING))
    rig = Rig(tmp_path, builder.build())
    store = next(iter(rig.spec.topology.store_builders))
    rig.clients.admin().create_topics([NewTopic("table", 1), NewTopic(f"{APPLICATION}-{store}-changelog", 1)])
    loop = rig.running()
    rig.write("table", *(("a", f"r{number}", number) for number in range(1, 5000)))
    rig.write("in", ("a", "l", 10_000))
    settle(loop)
    assert [record.value for record in rig.broker.records("out")] == [b"lr4999"]


def test_a_partition_that_waits_for_another_is_paused_and_continues_later(tmp_path: Path) -> None:
    builder = ps.StreamsBuilder()
    table = builder.table("table", ps.Consumed.with_(STRING, STRING))
    stream = builder.stream("in", ps.Consumed.with_(STRING, STRING))
    stream.left_join(table, lambda left, right: f"{left}{right}").to("out", ps.Produced.with_(STRING, STRING))
    rig = Rig(tmp_path, builder.build(), max_task_idle_ms=60_000, buffered_records_per_partition=10)
    store = next(iter(rig.spec.topology.store_builders))
    rig.clients.admin().create_topics([NewTopic("table", 1), NewTopic(f"{APPLICATION}-{store}-changelog", 1)])
    loop = rig.running()
    rig.write("in", *(("a", f"{number}-", 100) for number in range(5000)))
    settle(loop)
    assert rig.broker.records("out") == []
    status = loop.status()
    loop.step()
    assert status.result().tasks[0].lags[TopicPartition("in", 0)] == 5000
    rig.write("table", ("a", "r", 50))
    settle(loop)
    rig.clock.now_ms += 60_001
    settle(loop)
    assert [record.value for record in rig.broker.records("out")] == [b"%d-r" % number for number in range(5000)]


def test_a_partition_that_runs_out_of_records_holds_back_later_ones_that_were_fetched_after_it_had_grown(
    tmp_path: Path,
) -> None:
    builder = ps.StreamsBuilder()
    table = builder.table("table", ps.Consumed.with_(STRING, STRING))
    stream = builder.stream("in", ps.Consumed.with_(STRING, STRING))
    stream.left_join(table, lambda left, right: f"{left} {right}").to("out", ps.Produced.with_(STRING, STRING))
    rig = Rig(tmp_path, builder.build())
    store = next(iter(rig.spec.topology.store_builders))
    rig.clients.admin().create_topics([NewTopic("table", 1), NewTopic(f"{APPLICATION}-{store}-changelog", 1)])
    loop = rig.running()
    settle(loop)
    rig.write("in", ("a", "first", 10))
    assert loop._fetch()
    rig.write("in", ("a", "second", 20))
    rig.write("table", ("a", "later", 30))
    loop._consumer.pause([TopicPartition("in", 0)])  # a fetch need not bring records of each partition that has some
    assert loop._fetch()
    loop.step()
    loop._consumer.resume([TopicPartition("in", 0)])
    settle(loop)
    assert [record.value for record in rig.broker.records("out")] == [b"first None", b"second None"]


def test_a_paused_partition_is_resumed_before_its_task_leaves_so_that_it_is_read_when_it_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = ps.StreamsBuilder()
    table = builder.table("table", ps.Consumed.with_(STRING, STRING))
    stream = builder.stream("in", ps.Consumed.with_(STRING, STRING))
    stream.join(table, lambda left, right: f"{left}{right}").to("out", ps.Produced.with_(STRING, STRING))
    rig = Rig(tmp_path, builder.build(), max_task_idle_ms=60_000, buffered_records_per_partition=10)
    store = next(iter(rig.spec.topology.store_builders))
    rig.clients.admin().create_topics([NewTopic("table", 1), NewTopic(f"{APPLICATION}-{store}-changelog", 1)])
    loop = rig.running()
    rig.write("in", *(("a", f"{number}-", 100) for number in range(500)))
    settle(loop)
    resumed: list[TopicPartition] = []
    monkeypatch.setattr(loop._consumer, "resume", resumed.extend)
    rig.assign(loop, 2)
    settle(loop)
    assert resumed == [TopicPartition("in", 0)]


# ---- assignment ----


def test_a_released_task_is_committed_and_closed_before_the_confirmation(tmp_path: Path) -> None:
    rig = Rig(tmp_path, partitions=2)
    loop = rig.running()
    rig.write("in", ("a", "x", 1), partition=0)
    rig.write("in", ("a", "x", 1), partition=1)
    settle(loop)
    rig.coordinator.hold()
    assigned = rig.assign(loop, 2, TaskId(0, 0))
    settle(loop)
    assert not assigned.done()
    rig.coordinator.release()
    settle(loop)
    assert assigned.done()
    assert states(loop) == {TaskId(0, 0): TaskState.RUNNING}
    assert rig.committed(0) is None
    assert rig.committed(1) == 1
    # The database is free for the next owner.
    rig.stop(rig.running(TaskId(0, 1), epoch=3))


def test_an_assignment_that_has_passed_changes_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path, partitions=2)
    loop = rig.running(epoch=5)
    late = rig.assign(loop, 4)
    settle(loop)
    assert late.done()
    assert set(states(loop)) == {TaskId(0, 0), TaskId(0, 1)}


def test_a_refused_commit_drops_the_tasks_uncommitted(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.write("in", ("a", "x", 1))
    loop = rig.running()
    rig.coordinator.refusal = "epoch 1 is stale"
    rig.commit(loop)
    assert states(loop) == {}
    assert not loop.finished.done()
    assert rig.committed() is None
    rig.coordinator.refusal = ""
    rig.assign(loop, 2, TaskId(0, 0))
    settle(loop)
    # At least once: the flushed changelog is there, the record is processed again.
    assert count_of(loop, "a") == 2
    rig.commit(loop)
    assert rig.committed() == 1


def test_stopping_commits_what_was_processed_and_leaves_the_rest(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.write("in", ("a", "x", 1), ("b", "x", 2))
    loop = rig.running()
    rig.stop(loop)
    assert loop.finished.result() is None
    assert rig.committed() == 2
    assert loop.stop().done()
    asked = loop.query([key_query("a")])
    assert isinstance(asked.exception(), ApplicationStateError)
    assert loop.status().result().error is None


# ---- errors ----


def failing_on(value: str) -> ps.Topology:
    def check(given: str) -> str:
        if given == value:
            raise ValueError(f"cannot bear {given}")
        return given

    builder = ps.StreamsBuilder()
    stream = builder.stream("in", ps.Consumed.with_(STRING, STRING))
    stream.map_values(check, named=ps.Named("checking")).to("out", ps.Produced.with_(STRING, STRING))
    return builder.build()


def test_an_error_in_a_user_function_ends_the_loop_with_nothing_committed_past_it(tmp_path: Path) -> None:
    rig = Rig(tmp_path, failing_on("bad"))
    loop = rig.running()
    rig.write("in", ("k", "fine", 1))
    rig.commit(loop)
    rig.write("in", ("k", "fine too", 2), ("k", "bad", 3), ("k", "never", 4))
    settle(loop)
    text = loop.finished.result()
    assert text is not None
    assert "operator checking; topic in, partition 0, offset 2" in text
    assert "ValueError: cannot bear bad" in text
    assert "in check" in text, "the traceback leads into the user's code"
    assert rig.committed() == 1
    assert loop.status().result().error == text


def test_the_other_tasks_of_the_actor_commit_when_one_fails(tmp_path: Path) -> None:
    rig = Rig(tmp_path, failing_on("bad"), partitions=2)
    loop = rig.running()
    rig.write("in", ("k", "fine", 1), partition=1)
    settle(loop)
    rig.write("in", ("k", "bad", 1), partition=0)
    settle(loop)
    assert loop.finished.done()
    assert rig.committed(0) is None
    assert rig.committed(1) == 1


def test_an_undecodable_record_names_itself(tmp_path: Path) -> None:
    builder = ps.StreamsBuilder()
    builder.stream("in", ps.Consumed.with_(STRING, LONG)).to("out")
    rig = Rig(tmp_path, builder.build(), default_key_serde=STRING, default_value_serde=LONG)
    rig.write("in", ("k", "no long", 1))
    loop = rig.loop()
    rig.assign(loop, 1, TaskId(0, 0))
    settle(loop)
    assert "topic in, partition 0, offset 0" in (loop.finished.result() or "")


def test_a_record_that_the_broker_refuses_ends_the_loop_uncommitted(tmp_path: Path) -> None:
    rig = Rig(tmp_path, pass_through())
    rig.clients.admin().delete_topics(["out"])
    loop = rig.loop()
    rig.assign(loop, 1, TaskId(0, 0))
    rig.write("in", ("k", "v", 1))
    settle(loop)
    assert "topic 'out'" in (loop.finished.result() or "")
    assert rig.committed() is None


def test_a_missing_source_topic_is_named(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.clients.admin().delete_topics(["in"])
    loop = rig.loop()
    assigned = rig.assign(loop, 1, TaskId(0, 0))
    settle(loop)
    assert assigned.done()
    assert "there is no partition 0 of topic 'in': create it" in (loop.finished.result() or "")


def test_lags_and_counters_are_reported(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.write("in", ("a", "x", 1), ("b", "x", 2))
    loop = rig.running()
    asked = loop.status()
    loop.step()
    status = asked.result()
    (task,) = status.tasks
    assert (status.actor_id, status.node_id, status.epoch, status.commits) == ("stream/1", "node", 1, 0)
    assert (task.records_processed, task.restore_remaining) == (2, 0)
    assert dict(task.lags) == {TopicPartition("in", 0): 0}
