"""Global stores in the stream loop: filled before tasks begin, followed beside them. On the fake broker."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.status import TaskState
from penstock.actors.store_queries import QueryFailure, StoreAnswer, StoreQuery
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.topics import NewTopic
from penstock.state.queries import CountQuery, KeyQuery, RangeQuery
from tests.actors.rig import APPLICATION, STRING, HeardRestores, Rig, query, settle, states

TEXTS = ps.Consumed.with_(STRING, STRING)
WRITTEN = ps.Produced.with_(STRING, STRING)
GLOBAL = TaskId(1, 0)
"""Under which the global store is asked."""


def joined(store: str | None = "users", store_type: ps.StoreType = ps.StoreType.ROCKS_DB) -> ps.Topology:
    """Each record of ``in`` with what ``users`` has under its value."""
    builder = ps.StreamsBuilder()
    stream = builder.stream("in", TEXTS)
    kept: ps.Materialized[str, str] | None = None
    if store is not None:
        kept = ps.Materialized.as_(store)
        kept = kept.with_store_type(store_type)
    users = builder.global_table("users", TEXTS, kept)
    stream.left_join(users, lambda value: value, lambda value, user: f"{value}={user}").to("out", WRITTEN)
    return builder.build()


class Concatenate(ps.Processor[str, str, None, None]):
    """Keeps of each key all values that ever came, which shows a record that is processed twice."""

    def init(self, context: ps.ProcessorContext[None, None]) -> None:
        self.store = context.get_state_store("all")

    def process(self, record: ps.Record[str, str]) -> None:
        self.store.put(record.key, (self.store.get(record.key) or "") + record.value)


class LookUp(ps.Processor[str, str, str, str]):
    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        self.context = context
        self.store = context.get_state_store("all")

    def process(self, record: ps.Record[str, str]) -> None:
        self.context.forward(record.with_value(self.store.get(record.value) or "none"))


def processed(persistent: bool = True) -> ps.Topology:
    builder = ps.StreamsBuilder()
    make = ps.Stores.persistent_key_value_store if persistent else ps.Stores.in_memory_key_value_store
    store = ps.Stores.key_value_store_builder(make("all"), STRING, STRING)
    stream = builder.stream("in", TEXTS)
    builder.add_global_store(store, "users", TEXTS, Concatenate)
    stream.process(LookUp).to("out", WRITTEN)
    return builder.build()


class GlobalRig(Rig):
    """With a topic ``users`` of three partitions."""

    def __init__(self, state_dir: Path, topology: ps.Topology, **config: Any) -> None:
        super().__init__(state_dir, topology, **config)
        self.clients.admin().create_topics([NewTopic("users", 3, config={"cleanup.policy": "compact"})])

    def users(self, *rows: tuple[str | None, str | None]) -> None:
        """Each key always in one partition."""
        for key, value in rows:
            self.write("users", (key, value, 1), partition=len(key or "") % 3)

    def asked(self, *values: str) -> None:
        self.write("in", *(("k", value, 1) for value in values))

    def results(self) -> list[str]:
        return [(record.value or b"").decode() for record in self.broker.records("out")]


def look_up(loop: StreamLoop, key: str, store: str = "users", committed: bool = False) -> str | None:
    (answer,) = query(loop, StoreQuery(GLOBAL, store, KeyQuery(key.encode()), committed=committed))
    assert answer.failure is None, answer
    return answer.rows[0].value if answer.rows else None


def kill(loop: StreamLoop) -> None:
    """Its process is gone: files and locks are released, nothing else happens."""
    for hosted in loop._tasks.values():
        hosted.state_manager.close()
    loop._globals.state_manager.close()


def values(answers: Iterable[StoreAnswer]) -> list[str]:
    return [row.value for answer in answers for row in answer.rows]


@pytest.mark.parametrize("store_type", ps.StoreType)
def test_a_table_is_whole_before_the_first_record_is_processed(tmp_path: Path, store_type: ps.StoreType) -> None:
    rig = GlobalRig(tmp_path, joined(store_type=store_type))
    rig.users(*((f"{'x' * (number % 5)}{number}", f"user{number}") for number in range(3000)))
    rig.users((None, "nobody"), ("gone", "soon"), ("gone", None))
    rig.asked("xx2", "xxxx2999", "gone", "never")
    loop = rig.running()
    assert rig.results() == ["xx2=user2", "xxxx2999=user2999", "gone=None", "never=None"]
    rig.stop(loop)


def test_tasks_wait_as_long_as_the_table_is_read(tmp_path: Path) -> None:
    rig = GlobalRig(tmp_path, joined())
    rig.users(*((f"k{number}", "u") for number in range(5000)))
    rig.asked("k4999")
    loop = rig.loop()
    rig.assign(loop, 1, TaskId(0, 0))
    seen = []
    while not rig.results():
        loop.step()
        seen.append((states(loop).get(TaskId(0, 0)), loop._globals.state))
    assert (TaskState.RESTORING, TaskState.RESTORING) in seen
    assert (TaskState.RUNNING, TaskState.RESTORING) not in seen
    assert rig.results() == ["k4999=u"]


def test_updates_are_followed_beside_the_records(tmp_path: Path) -> None:
    rig = GlobalRig(tmp_path, joined())
    loop = rig.running()
    for user in ("one", "two", None, "three"):
        rig.users(("ada", user))
        settle(loop)
        rig.asked("ada")
        settle(loop)
    assert rig.results() == ["ada=one", "ada=two", "ada=None", "ada=three"]
    rig.commit(loop)
    rig.asked("ada")
    settle(loop)
    assert rig.results()[-1] == "ada=three"


def test_a_restart_continues_at_the_position_of_the_global_store_on_disk(tmp_path: Path) -> None:
    rig = GlobalRig(tmp_path, processed())
    rig.users(("ada", "a"), ("bob", "b"), ("ada", "c"))
    loop = rig.running()
    rig.commit(loop)
    rig.users(("ada", "d"))
    settle(loop)
    assert look_up(loop, "ada", "all") == "acd"
    assert look_up(loop, "ada", "all", committed=True) == "ac"
    rig.stop(loop)
    rig.asked("ada", "bob")
    loop = rig.running(epoch=2)
    assert rig.results() == ["acd", "b"]
    rig.stop(loop)
    assert sorted(path.name for path in (tmp_path / APPLICATION / "global").iterdir()) == ["0", "0.lock"]


@pytest.mark.parametrize("when", ["before a commit", "within one", "after it"])
def test_after_a_kill_no_record_is_lost_or_taken_twice(tmp_path: Path, when: str) -> None:
    rig = GlobalRig(tmp_path, processed())
    loop = rig.running()
    rig.users(*((key, letter) for letter in "abc" for key in ("ada", "bob", "eve", "al")))
    settle(loop)
    if when == "within one":
        rig.clock.now_ms += 1001
        loop.step()
        loop.step()
        assert loop._globals._commit is not None
    elif when == "after it":
        rig.commit(loop)
    rig.users(("ada", "d"))
    if when != "within one":
        settle(loop)
    kill(loop)
    rig.asked("ada", "bob", "al")
    rig.running(epoch=2)
    assert rig.results() == ["abcd", "abc", "abc"]


def test_a_store_in_memory_is_filled_again_at_each_start(tmp_path: Path) -> None:
    rig = GlobalRig(tmp_path, processed(persistent=False))
    rig.users(("ada", "a"), ("ada", "b"))
    loop = rig.running()
    rig.commit(loop)
    rig.stop(loop)
    rig.asked("ada")
    rig.running(epoch=2)
    assert rig.results() == ["ab"]


def test_killed_while_it_is_filled_it_begins_again(tmp_path: Path) -> None:
    rig = GlobalRig(tmp_path, joined())
    rig.users(*((f"k{number}", "u") for number in range(5000)))
    loop = rig.loop()
    for _ in range(6):
        loop.step()
    assert loop._globals.state is TaskState.RESTORING
    kill(loop)
    rig.asked("k0", "k4999")
    rig.running()
    assert rig.results() == ["k0=u", "k4999=u"]


def test_every_actor_of_a_node_has_global_stores_of_its_own_and_old_ones_are_removed(tmp_path: Path) -> None:
    rig = GlobalRig(tmp_path, joined(), state_cleanup_delay_ms=0)
    rig.users(("ada", "one"))
    first, second = rig.running(), rig.running()
    directories = tmp_path / APPLICATION / "global"
    assert look_up(first, "ada") == look_up(second, "ada") == "one"
    assert {path.name for path in directories.iterdir() if path.is_dir()} == {"0", "1"}
    rig.stop(second)
    rig.clock.now_ms += 20_000
    settle(first)
    assert {path.name for path in directories.iterdir() if path.is_dir()} == {"0"}


def test_a_topic_that_has_deleted_records_is_read_again_and_tasks_wait(tmp_path: Path) -> None:
    rig = GlobalRig(tmp_path, joined())
    rig.users(("ada", "one"), ("bob", "one"), ("old", "one"))
    loop = rig.running()
    rig.commit(loop)
    admin = rig.clients.admin()
    admin.delete_topics(["users"])
    admin.create_topics([NewTopic("users", 3)])
    rig.users(("bob", "two"))
    settle(loop)
    rig.asked("ada", "bob")
    settle(loop)
    assert rig.results() == ["ada=None", "bob=two"]


def test_a_global_store_older_than_the_deletions_that_its_topic_keeps_is_refilled(tmp_path: Path) -> None:
    rig = GlobalRig(tmp_path, joined())
    rig.users(("ada", "one"), ("bob", "one"))
    loop = rig.running()
    rig.users(("eve", "one"))
    settle(loop)
    rig.commit(loop)
    rig.stop(loop)
    # Compaction leaves nothing of a deletion, even if no actor has read it in time.
    admin = rig.clients.admin()
    admin.delete_records({TopicPartition("users", 0): 1})
    rig.users(("eve", "two"))
    rig.clock.now_ms += 2 * 86_400_000
    rig.asked("ada", "bob", "eve")
    rig.running(epoch=2)
    assert rig.results() == ["ada=None", "bob=one", "eve=two"]


def test_global_stores_answer_queries_and_count_what_they_drop(tmp_path: Path) -> None:
    rig = GlobalRig(tmp_path, joined())
    rig.users(("ada", "one"), ("bob", "two"))
    loop = rig.loop()
    rig.assign(loop, 1, TaskId(0, 0))
    asked = StoreQuery(GLOBAL, "users", RangeQuery(None, None), limit=10)
    (early,) = query(loop, asked)
    assert early.failure is QueryFailure.NOT_PRESENT
    settle(loop)
    found = loop.query([asked])
    settle(loop)
    assert values(found.result()) == ["one", "two"]
    assert query(loop, StoreQuery(GLOBAL, "users", CountQuery()))[0].rows[0].value == 2
    (wrong,) = query(loop, StoreQuery(GLOBAL, "user", KeyQuery(b"ada")))
    assert wrong.failure is QueryFailure.DOES_NOT_EXIST
    rig.users((None, "nobody"))
    settle(loop)
    status = loop.status()
    loop.step()
    assert status.result().global_dropped_records == 1


def test_an_undecodable_record_ends_the_actor_with_an_error_that_names_its_offset(tmp_path: Path) -> None:
    builder = ps.StreamsBuilder()
    stream = builder.stream("in", TEXTS)
    users = builder.global_table("users", ps.Consumed.with_(STRING, ps.Serdes.long()))
    stream.join(users, lambda value: value, lambda value, user: f"{value}{user}").to("out", WRITTEN)
    rig = GlobalRig(tmp_path, builder.build())
    loop = rig.running()
    rig.users(("ada", "no number"))
    settle(loop)
    assert loop.finished.done()
    assert "topic users, partition 0, offset 0" in (loop.finished.result() or "")


def test_an_actor_that_waits_for_a_broker_to_read_global_stores_stops_at_once(tmp_path: Path) -> None:
    """The coordinator gives it 120 s for that. Its tasks have done nothing yet."""
    rig = GlobalRig(tmp_path, joined())
    loop = rig.loop()
    rig.broker.down = True
    assigned = rig.assign(loop, 1, TaskId(0, 0))
    settle(loop)
    assert not assigned.done()
    rig.stop(loop)
    assert loop.finished.result(0) is None


def test_a_program_without_global_stores_makes_no_consumer_for_them(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loop = rig.running()
    assert loop._globals.ready
    assert not loop._globals.stores
    assert not (tmp_path / APPLICATION / "global").exists()
    rig.stop(loop)


def test_a_restore_listener_hears_of_each_partition_that_has_records(tmp_path: Path) -> None:
    rig, heard = GlobalRig(tmp_path, joined()), HeardRestores()
    rig.spec = replace(rig.spec, restore_listener=heard)
    rig.users(("a", "1"), ("b", "2"), ("ab", "3"))  # two partitions
    loop = rig.running()
    ends = {store[0].partition: call for store, call in zip(heard.stores, heard.calls, strict=True) if call[0] == "end"}
    assert ends == {1: ("end", 2), 2: ("end", 1)}
    assert {store[1] for store in heard.stores} == {"users"}
    assert sorted(call for call in heard.calls if call[0] == "start") == [("start", 0, 1), ("start", 0, 2)]
    before = len(heard.calls)
    rig.users(("c", "4"))
    settle(loop)
    assert look_up(loop, "c") == "4"
    assert len(heard.calls) == before, "what comes later is no restore"
