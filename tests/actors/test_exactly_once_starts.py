"""``exactly_once_v2``: tasks that begin, fail or go back while something that they need is missing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

import penstock as ps
from penstock.actors.status import TaskState
from penstock.common.errors import BrokerUnreachableError
from penstock.common.ids import CommittedOffset, TaskId, TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.contracts import TransactionAbortedError
from penstock.tasks import context
from penstock.testing.fake_clients import FakeConsumer
from tests.actors.crashed import Crashing, Rows
from tests.actors.exactly_once import EXACTLY, TASK, Ticker, application, processing
from tests.actors.rig import APPLICATION, STRING, Rig, settle, states
from tests.actors.test_changelog_ahead import BEFORE, BEHIND, expiring, stream_join, windows


def test_when_a_task_fails_nothing_is_committed_for_the_others(tmp_path: Path) -> None:
    builder = ps.StreamsBuilder()

    def fail_on_poison(value: str) -> str:
        if value == "poison":
            raise ValueError("bad")
        return value

    stream = builder.stream("in", ps.Consumed.with_(STRING, STRING))
    stream.map_values(fail_on_poison).to("out", ps.Produced.with_(STRING, STRING))
    rig = Rig(tmp_path, builder.build(), partitions=2, commit_interval_ms=1000, **EXACTLY)
    loop = rig.running()
    rig.write("in", ("a", "good", 1), partition=0)
    settle(loop)
    rig.write("in", ("b", "poison", 1), partition=1)
    settle(loop)
    assert "ValueError: bad" in str(loop.finished.result())
    assert rig.broker.records("out") == []
    assert rig.committed(0) is None
    assert rig.broker.log(ps.TopicPartition("out", 0)).stable_end == rig.broker.log(ps.TopicPartition("out", 0)).end


def test_tasks_that_go_back_while_a_topic_of_theirs_is_gone_hold_up_no_assignment_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = application(tmp_path, partitions=2)
    loop = rig.running()
    ends = FakeConsumer.fetch_end_offsets

    def gone(self: FakeConsumer, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        if TopicPartition("in", 1) in (asked := set(partitions)):
            raise BrokerUnreachableError("unknown topic or partition: one that has just started says so, too")
        return ends(self, asked)

    monkeypatch.setattr(FakeConsumer, "fetch_end_offsets", gone)
    rig.write("in", ("a", "x", 1), partition=0)
    settle(loop)
    rig.coordinator.join()
    rig.commit(loop)
    rig.clock.now_ms += 1_000_000
    settle(loop)
    assert set(states(loop).values()) == {TaskState.CREATED}, "it waits"
    rig.assign(loop, 2, TASK)
    settle(loop)
    assert states(loop) == {TASK: TaskState.RUNNING}
    rig.commit(loop)
    assert rig.counts() == [("a", 2)]


def test_a_task_without_records_commits_where_it_begins_so_that_the_group_looks_at_the_member(tmp_path: Path) -> None:
    rig = processing(tmp_path, Ticker)
    loop = rig.running()
    rig.commit(loop)
    rig.commit(loop)
    assert rig.committed() == 0
    ticks = len(rig.broker.records("out"))
    assert ticks == 2
    rig.coordinator.join()  # restarted, it does not know the actor
    rig.coordinator.refusal = "actor stream/1 is no longer part of the application"
    rig.commit(loop)
    assert len(rig.broker.records("out")) == ticks
    assert states(loop) == {}


@pytest.mark.parametrize("aborted", [1, 2, 3, 5])
def test_an_abort_while_processors_are_initialised_leaves_no_task_behind(tmp_path: Path, aborted: int) -> None:
    class Fenced(ps.Processor[str, str, str, str]):
        """A processor whose first ``aborted`` initialisations fail, as if its producer had been fenced."""

        inits = 0

        def init(self, context: ps.ProcessorContext[str, str]) -> None:
            self.context = context
            Fenced.inits += 1
            if Fenced.inits <= aborted:
                raise TransactionAbortedError("fenced", producer_is_spent=True)

        def process(self, record: ps.Record[str, str]) -> None:
            self.context.forward(record)

    rig = processing(tmp_path, Fenced, partitions=2)
    loop = rig.loop()
    rig.assign(loop, 1, TaskId(0, 0), TaskId(0, 1))
    for _ in range(10):
        rig.clock.now_ms += 10_000
        settle(loop)
    assert not loop.finished.done(), loop.finished.result()
    assert states(loop) == dict.fromkeys([TaskId(0, 0), TaskId(0, 1)], TaskState.RUNNING)
    rig.write("in", ("a", "x", 1), partition=0)
    rig.write("in", ("b", "x", 1), partition=1)
    rig.commit(loop)
    assert len(rig.broker.records("out")) == 2


def test_records_that_a_processor_sends_in_init_are_committed_even_if_no_record_arrives(tmp_path: Path) -> None:
    class Greeting(ps.Processor[str, str, str, str]):
        def init(self, context: ps.ProcessorContext[str, str]) -> None:
            context.forward(ps.Record("hello", "x", 1))

        def process(self, record: ps.Record[str, str]) -> None:
            """Does nothing: it only greets."""

    rig = processing(tmp_path, Greeting)
    loop = rig.running()
    rig.commit(loop)
    assert len(rig.broker.records("out")) == 1
    rig.broker.expire_transactions()
    rig.commit(loop)
    assert len(rig.broker.uncommitted_records("out")) == 1, "none was open"


def test_an_offset_that_was_committed_at_least_once_behind_a_transaction_that_is_still_open_holds(
    tmp_path: Path,
) -> None:
    rig = application(tmp_path)
    rig.write("in", ("a", "x", 1))
    producer = rig.clients.transactional_producer("another's")
    producer.init_transactions().result()
    producer.begin_transaction()
    producer.send("in", b"b", b"x", 2, None, 0)
    producer.flush(1)
    # An application that reads uncommitted records has committed past the open transaction.
    rig.broker.group(APPLICATION).offsets[ps.TopicPartition("in", 0)] = CommittedOffset(2, "")
    loop = rig.running()
    rig.commit(loop)
    producer.commit_transaction({}, b"").result()
    rig.write("in", ("c", "x", 3))
    rig.commit(loop)
    assert rig.counts() == [("c", 2)], "nothing comes again"


def outer_join() -> ps.Topology:
    """Joins records of the topic ``in`` with others of it; none has a match."""
    builder = ps.StreamsBuilder()
    stream = builder.stream("in", ps.Consumed.with_(STRING, STRING))
    left, right = stream.filter(lambda _, value: value == "l"), stream.filter(lambda _, value: value == "r")
    within = ps.JoinWindows.of_time_difference_with_no_grace(0)
    how = ps.StreamJoined.with_(STRING, STRING, STRING).with_store_name("pairs")
    pairs = left.outer_join(right, lambda one, other: f"{one}+{other}", within, how)
    pairs.to("out", ps.Produced.with_(STRING, STRING))
    return builder.build()


def test_a_commit_that_another_actor_made_after_the_starting_offsets_were_found_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other actor is in another Ray cluster. At least once, a record that found no match behind the commit waits
    again. Exactly once, its result is committed, and the stores outlive a task whose commit is refused."""
    monkeypatch.setattr(context, "EMIT_INTERVAL_MS", 0)
    rig = Rig(tmp_path, outer_join(), **EXACTLY)
    shared = f"{APPLICATION}-pairs-outer-shared-join-store-changelog"
    sides = [f"{APPLICATION}-pairs-outer-{side}-join-store-changelog" for side in ("this", "other")]
    rig.clients.admin().create_topics([NewTopic(name, 1) for name in (shared, *sides)])
    loop = rig.running()
    rig.write("in", ("a", "l", 1000))
    rig.commit(loop)
    rig.stop(loop)
    (waits,) = [record for record in rig.broker.records(shared) if record.is_committed]
    rig.broker.append(shared, replace(waits, value=None, timestamp=9000, transaction=None), 0)
    again = rig.on_another_node(tmp_path / "there").running(epoch=2)
    rig.write("in", ("b", "l", 20_000), ("c", "l", 30_000))
    rig.commit(again)
    keys = [record.key for record in rig.broker.records("out")]
    assert keys == [b"b"], "the result of a is another actor's"


@pytest.mark.parametrize("disk", ["here", "elsewhere"])
@pytest.mark.parametrize(
    ("topology", "before", "behind", "wanted"),
    [
        (windows("time", on_close=False, caching=False), BEFORE, BEHIND, ("a@60000", "1233")),
        (
            stream_join(outer=False),
            [("other", "a", "r", 60_000)],
            [("in", "a", "l", 70_000), ("other", "b", "x", 9_000_000)],
            ("a", "l+r"),
        ),
        (expiring(), [("in", "a", "x", 60_000)], [("in", "b", "y", 200_000)], ("a", None)),
    ],
    ids=["window", "join", "ttl"],
)
def test_after_a_crash_at_least_once_a_start_under_exactly_once_leaves_out_what_comes_again(
    topology: ps.Topology, before: Rows, behind: Rows, wanted: tuple[str, str | None], disk: str, tmp_path: Path
) -> None:
    rig = Crashing(tmp_path / "here", topology)
    crashing = rig.running()
    for row in before:
        rig.send([row])
        settle(crashing)
        rig.commit(crashing)
    for row in behind:
        rig.send([row])
        settle(crashing)
    crashing._finish("killed")
    came = len(rig.results())
    then = rig.under_exactly_once(tmp_path / disk)
    loop = then.running(epoch=2)
    then.commit(loop)
    then.stop(loop)
    records = [it for it in rig.broker.records("out")[came:] if not it.is_marker]
    assert wanted in [((it.key or b"").decode(), None if it.value is None else it.value.decode()) for it in records]
