"""At least once, standbys follow their changelogs as far as the last commit of the active task covers them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.actors.task_host.standby_task import Asked, StandbyTask
from penstock.common.errors import BrokerUnreachableError
from penstock.common.ids import CommittedOffset, TaskId, TopicPartition
from penstock.common.records import RecordBatch
from penstock.common.topics import NewTopic
from penstock.testing.fake_clients import FakeAdmin
from tests.actors.rig import APPLICATION, CHANGELOG, LONG, STRING, Rig, follow, settle, uncached
from tests.actors.standbys import READS, TASK, lag, log, raising, stale_count, standby_of
from tests.actors.test_restoration import kill


def uncached_rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path, uncached())


def test_a_standby_does_not_pass_the_last_commit_though_the_changelog_has_more(tmp_path: Path) -> None:
    rig = uncached_rig(tmp_path)
    active = rig.running(TASK)
    rig.write("in", ("ada", "x", 1))
    settle(active)
    rig.commit(active)
    standby = standby_of(rig)
    rig.write("in", ("ada", "x", 2), ("ada", "x", 3))
    settle(active)
    assert rig.broker.log(TopicPartition(CHANGELOG, 0)).end == 3
    follow(rig, standby)
    assert stale_count(standby, "ada") == 1
    assert [status.lag for status in lag(standby)] == [0], "it lacks nothing of what is committed"
    rig.commit(active)
    follow(rig, standby)
    assert stale_count(standby, "ada") == 3


def test_records_read_beyond_a_commit_are_read_again_even_if_another_standby_was_added(tmp_path: Path) -> None:
    """Partitions that stay assigned continue behind the records that were thrown away, which must not be forgotten."""
    rig = Rig(tmp_path, uncached(), partitions=2)
    active, other = rig.running(TASK, TaskId(0, 1)), TaskId(0, 1)
    rig.write("in", ("ada", "x", 1), partition=0)
    settle(active)
    rig.commit(active)
    rig.write("in", ("ada", "x", 2), ("bob", "x", 3), partition=0)
    settle(active)
    standby = standby_of(rig)
    follow(rig, standby)
    assert (stale_count(standby, "ada"), stale_count(standby, "bob")) == (1, None)
    standby.assign(2, {}, {**READS, other: frozenset({TopicPartition("in", 1)})})
    settle(standby)
    rig.commit(active)
    follow(rig, standby)
    assert (stale_count(standby, "ada"), stale_count(standby, "bob")) == (2, 1)


def test_changelog_records_left_by_a_crash_reach_the_standbys_even_if_no_record_arrives(tmp_path: Path) -> None:
    """The next commit reports it, and there is one although nothing is processed again."""
    rig = uncached_rig(tmp_path)
    active = rig.running(TASK)
    rig.write("in", ("ada", "x", 1))
    settle(active)
    rig.commit(active)
    log(rig, "bob", 7)
    kill(active)
    standby = rig.on_another_node(tmp_path / "there").loop(2)
    standby.assign(2, {}, READS)
    settle(standby)
    assert stale_count(standby, "bob") is None
    again = rig.running(TASK, epoch=2)
    rig.commit(again)
    follow(rig, standby)
    assert stale_count(standby, "bob") == 7
    commits = len(rig.coordinator.requests)
    rig.commit(again)
    assert len(rig.coordinator.requests) == commits, "told once, that is enough"


def test_a_standby_whose_commits_cover_no_changelogs_waits_and_logs_nothing(tmp_path: Path) -> None:
    """The commits may be those of Kafka Streams, or of a version that reported nothing."""
    rig = Rig(tmp_path)
    log(rig, "ada", 1)
    rig.broker.group(APPLICATION).offsets[TopicPartition("in", 0)] = CommittedOffset(0)
    standby = standby_of(rig)
    follow(rig, standby)
    assert (stale_count(standby, "ada"), lag(standby)) == (None, [])
    active = rig.on_another_node(tmp_path / "there").running(TASK)
    rig.commit(active)
    follow(rig, standby)
    assert stale_count(standby, "ada") == 1
    assert [status.lag for status in lag(standby)] == [0]


def test_only_what_was_thrown_away_is_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log may begin behind the position of the standby by now: a seek there would have its stores wiped."""
    rig = uncached_rig(tmp_path)
    active = rig.running(TASK)
    rig.write("in", ("ada", "x", 1))
    settle(active)
    rig.commit(active)
    following = standby_of(rig)._standbys._following
    [(tp, replay)] = following._replays.by_partition.items()
    assert (replay.position, replay.end, replay.thrown_away) == (1, 1, None)
    sought: list[int] = []
    monkeypatch.setattr(following._replays.consumer, "seek", lambda _, offset: sought.append(offset))
    ends = iter([4, 7, 9])
    monkeypatch.setattr(StandbyTask, "limits", property(lambda _: {tp: next(ends)}))
    following.committed(replay.task)
    assert sought == [], "nothing was thrown away"
    # Compaction has removed what was at 1 to 4.
    following._replays._take(replay, RecordBatch(tp, [b"ada", b"bob"], [None, None], [1, 1], [5, 6]))
    following.committed(replay.task)
    following.committed(replay.task)
    assert sought == [5], "once"


def test_a_sub_topology_may_have_hundreds_of_stores(tmp_path: Path) -> None:
    count = 160
    rig = Rig(tmp_path, many_counts(count))
    topics = [NewTopic(f"{APPLICATION}-counts-{number}-changelog", 1) for number in range(count)]
    rig.clients.admin().create_topics(topics)
    active = rig.running(TASK)
    rig.write("in", ("ada", "x", 1))
    settle(active)
    rig.commit(active)
    standby = standby_of(rig)
    follow(rig, standby)
    assert [status.lag for status in lag(standby)] == [0]


def many_counts(count: int) -> ps.Topology:
    """Counts the same records ``count`` times, each in a store in memory."""
    builder = ps.StreamsBuilder()
    grouped = builder.stream("in", ps.Consumed.with_(STRING, STRING)).group_by_key()
    for number in range(count):
        grouped.count(ps.Materialized.as_(f"counts-{number}").with_store_type(ps.StoreType.IN_MEMORY))
    return builder.build()


def test_writes_of_punctuators_alone_reach_the_standbys(tmp_path: Path) -> None:
    rig = Rig(tmp_path, ticking())
    active = rig.running(TASK)
    standby = standby_of(rig)
    for _ in range(3):
        rig.commit(active)
    follow(rig, standby)
    assert (stale_count(standby, "ticks") or 0) >= 1
    assert rig.committed() == 0


class _Ticks(ps.Processor[str, str, str, int]):
    def init(self, context: ps.ProcessorContext[str, int]) -> None:
        self.store: Any = context.get_state_store("counts")
        context.schedule(timedelta(seconds=1), ps.PunctuationType.WALL_CLOCK_TIME, self.tick)

    def tick(self, timestamp: int) -> None:
        self.store.put("ticks", (self.store.get("ticks") or 0) + 1)

    def process(self, record: ps.Record[str, str]) -> None:
        raise AssertionError("there is none")


def ticking() -> ps.Topology:
    store = ps.Stores.persistent_key_value_store("counts")
    builder = ps.StreamsBuilder()
    builder.add_state_store(ps.Stores.key_value_store_builder(store, STRING, LONG))
    builder.stream("in", ps.Consumed.with_(STRING, STRING)).process(_Ticks, "counts")
    return builder.build()


def test_only_the_partitions_of_the_standbys_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(tmp_path)
    asked: list[Any] = []
    committed = FakeAdmin.committed

    def asks(admin: FakeAdmin, group: str, partitions: Any = None) -> Any:
        asked.append(partitions)
        return committed(admin, group, partitions)

    monkeypatch.setattr(FakeAdmin, "committed", asks)
    standby = standby_of(rig)
    follow(rig, standby)
    assert len(asked) >= 2
    assert all(set(partitions) == {TopicPartition("in", 0)} for partitions in asked)


@pytest.mark.parametrize("task", [TASK, TaskId(0, 1)], ids=["the same task", "another task"])
def test_a_standby_takes_no_answer_to_a_question_before_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: TaskId
) -> None:
    """It would assume that nothing of its task is committed, and its rows would expire by what a crash has left."""
    rig = Rig(tmp_path, uncached(), partitions=2)
    standby = standby_of(rig)
    rig.clock.now_ms += 1001
    standby.step()
    asked = standby._standbys._asking
    assert asked is not None
    asked.result(timeout=10)
    monkeypatch.setattr(FakeAdmin, "committed", raising(BrokerUnreachableError("the broker of the group")))
    standby.assign(2, {}, {})
    standby.assign(3, {}, {task: frozenset({TopicPartition("in", task.partition)})})
    settle(standby)
    assert standby._standbys.by_id[task].heard is None


def test_no_answer_opens_a_standby_that_has_left(tmp_path: Path) -> None:
    rig = uncached_rig(tmp_path)
    active, standby = rig.running(TASK), standby_of(rig)
    rig.write("in", ("ada", "x", 1))
    settle(active)
    rig.commit(active)
    rig.clock.now_ms += 1001
    standby.step()
    asked = standby._standbys._asking
    assert asked is not None
    asked.result(timeout=10)
    standby.assign(2, {}, {})
    settle(standby)
    assert standby._standbys.by_id == {}


def test_an_answer_to_an_older_question_is_no_news(tmp_path: Path) -> None:
    rig = uncached_rig(tmp_path)
    active = rig.running(TASK)
    rig.write("in", ("ada", "x", 1))
    settle(active)
    rig.commit(active)
    standby = standby_of(rig)._standbys.by_id[TASK]
    heard = standby.heard
    assert heard is not None
    assert not standby.take_committed({}, Asked(heard.wall_ms - 1000, heard.monotonic_s - 1.0))
    assert standby.heard == heard


def test_exactly_once_a_standby_asks_for_no_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(tmp_path, processing_guarantee="exactly_once_v2")
    monkeypatch.setattr(FakeAdmin, "committed", raising(AssertionError("nobody needs them")))
    standby = standby_of(rig)
    follow(rig, standby)
    assert [status.lag for status in lag(standby)] == [0]
