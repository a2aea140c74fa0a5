"""An audit point over real stream loops and a broker in memory, while records keep coming in."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.actors.audit_messages import AuditAnswer, AuditStep, HoldIntake
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.task_host.task_images import open_image
from penstock.cluster.queries.audit_point import AuditPoint, AuditPointError, Placed, PointTaker, Wave
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.topics import NewTopic
from penstock.tasks.program import TaskPrograms
from tests.actors.rig import APPLICATION, LONG, STRING, Rig, settle
from tests.waiting import PATIENCE_S

PARTITIONS = 2
REPARTITION = f"{APPLICATION}-counts-repartition"


def rekeyed_counts() -> ps.Topology:
    """Counts the records of ``in`` by their values, behind a repartition topic."""
    builder = ps.StreamsBuilder()
    (
        builder.stream("in", ps.Consumed.with_(STRING, STRING))
        .group_by(lambda key, value: value, ps.Grouped.with_(STRING, STRING).with_name("counts"))
        .count(ps.Materialized.as_("counts"))
        .to_stream()
        .to("out", ps.Produced.with_(STRING, LONG))
    )
    return builder.build()


class World:
    """Two actors, each with one task of each sub-topology. Whenever an actor is asked, records come in."""

    def __init__(self, state_dir: Path, **config: Any) -> None:
        self.rig = Rig(state_dir, rekeyed_counts(), PARTITIONS, **config)
        self.rig.clients.admin().create_topics([NewTopic(REPARTITION, PARTITIONS)])
        self.random = random.Random(7)
        self.sent: list[list[str]] = [[], []]
        self.loops = {f"stream/{slot}": self.rig.loop(slot) for slot in (1, 2)}
        self.tasks = {f"stream/{slot}": [TaskId(0, slot - 1), TaskId(1, 2 - slot)] for slot in (1, 2)}
        for actor, loop in self.loops.items():
            self.rig.assign(loop, 1, *self.tasks[actor])
        self.settle()
        self.before: dict[str, Any] = {}

    def settle(self) -> None:
        for loop in self.loops.values():
            settle(loop)

    def write(self, count: int) -> None:
        for _ in range(count):
            partition, word = self.random.randrange(PARTITIONS), self.random.choice("abcde")
            self.sent[partition].append(word)
            self.rig.write("in", ("k", word, 1), partition=partition)

    def ask(self, steps: Mapping[str, AuditStep]) -> dict[str, AuditAnswer]:
        done = {actor: self.loops[actor].audit(step) for actor, step in steps.items()}
        while not all(each.done() for each in done.values()):
            self.write(3)
            for loop in self.loops.values():
                for _ in range(self.random.randrange(20)):
                    loop.step()
            self.rig.clock.now_ms += 5
        return {actor: each.result(PATIENCE_S) for actor, each in done.items()}

    def ends(self, partitions: Any) -> Mapping[TopicPartition, int]:
        return self.rig.clients.consumer().fetch_end_offsets(partitions)

    def taker(self, within_s: float = 60.0) -> PointTaker:
        sources = {0: "in", 1: REPARTITION}
        placement = {
            task: Placed(actor, 1, frozenset({TopicPartition(sources[task.subtopology], task.partition)}))
            for actor, tasks in self.tasks.items()
            for task in tasks
        }
        clock = self.rig.clock.monotonic_s
        return PointTaker("p", placement, self.ask, self.ends, clock, within_s)

    @staticmethod
    def waves() -> list[Wave]:
        def all_of(topic: str) -> frozenset[TopicPartition]:
            return frozenset(TopicPartition(topic, number) for number in range(PARTITIONS))

        tasks = [frozenset(TaskId(sub, number) for number in range(PARTITIONS)) for sub in (0, 1)]
        return [Wave(tasks[0], frozenset(), all_of("in")), Wave(tasks[1], all_of(REPARTITION), frozenset())]

    def counts(self, point: AuditPoint) -> Counter[str]:
        found: Counter[str] = Counter()
        for task, each in point.images.items():
            if task.subtopology == 1:
                builders = TaskPrograms(self.rig.spec.topology, self.rig.spec.config).of(1).stores
                opened = open_image(Path(each.image.folder), builders)
                for key, row in opened.store("counts").scan(None, None):
                    found[key.decode()] = int.from_bytes(row[8:], "big")
                opened.close()
        return found


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_the_stores_behind_a_repartition_topic_have_exactly_the_records_before_the_offsets(
    tmp_path: Path, guarantee: str
) -> None:
    world = World(tmp_path, processing_guarantee=guarantee)
    world.write(200)
    for loop in world.loops.values():
        for _ in range(10):
            loop.step()
    point = world.taker().take(world.waves())
    expected: Counter[str] = Counter()
    for number, words in enumerate(world.sent):
        offset = point.offsets.get(TopicPartition("in", number), 0)
        assert offset < len(words), "the point is in the middle of what comes in, or it would prove nothing"
        expected.update(words[:offset])
    assert world.counts(point) == expected
    world.settle()
    world.rig.commit(world.loops["stream/1"])
    world.rig.commit(world.loops["stream/2"])
    assert [world.rig.committed(number) for number in range(PARTITIONS)] == [len(sent) for sent in world.sent]


def holds(loop: StreamLoop) -> bool:
    return loop._reader.holds(TopicPartition("in", 0)) or loop._reader.holds(TopicPartition("in", 1))


def test_if_a_task_is_not_here_no_point_is_taken_and_no_hold_stays(tmp_path: Path) -> None:
    world = World(tmp_path)
    taker = world.taker()
    del taker._placement[TaskId(1, 1)]  # type: ignore[attr-defined]
    with pytest.raises(AuditPointError, match="no actor of this Ray cluster has task 1_1"):
        taker.take(world.waves())
    world.settle()
    assert not any(map(holds, world.loops.values()))


def test_an_actor_that_refuses_ends_the_hold_of_the_others(tmp_path: Path) -> None:
    world = World(tmp_path)
    other = world.loops["stream/2"].audit(HoldIntake("other", 1, frozenset({TopicPartition("in", 1)}), 60.0))
    world.settle()
    assert other.result(PATIENCE_S).refused is None
    with pytest.raises(AuditPointError, match="stream/2 gives no intake on hold: another audit"):
        world.taker().take(world.waves())
    world.settle()
    assert not holds(world.loops["stream/1"])
    assert holds(world.loops["stream/2"]), "that is the other audit's"


def test_tasks_that_moved_meanwhile_make_the_point_void(tmp_path: Path) -> None:
    world = World(tmp_path)
    asked = world.ask

    def moving(steps: Mapping[str, AuditStep]) -> dict[str, AuditAnswer]:
        answers = asked(steps)
        world.rig.assign(world.loops["stream/1"], 2, *world.tasks["stream/1"])
        world.settle()
        return answers

    world.ask = moving  # type: ignore[method-assign]
    with pytest.raises(AuditPointError, match="have moved"):
        world.taker().take(world.waves())


def test_an_application_that_is_behind_comes_to_no_point_in_time(tmp_path: Path) -> None:
    world = World(tmp_path)
    paused = world.loops["stream/2"].pause(True)
    world.settle()
    assert paused.done()
    world.write(50)
    world.settle()
    with pytest.raises(
        AuditPointError, match=r"stream/2 gives no images of its tasks: task 1_0 is at offset \d+ of app-"
    ):
        world.taker(within_s=1.0).take(world.waves())
    world.loops["stream/2"].pause(False)
    world.settle()
    assert not any(map(holds, world.loops.values()))
