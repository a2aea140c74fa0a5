"""Joins of two streams whose task is thrown away at a random record, and restored from its changelogs or its disk."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.common.config import StreamsConfig
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.records import RecordBatch
from penstock.state.disk.task_stores import open_task_stores
from penstock.tasks.program import TaskProgram
from penstock.tasks.state_manager import StateManager
from penstock.tasks.task import Task
from penstock.topology.physical.topology import Topology
from tests.parity import corpus
from tests.parity.build import SERDES, Built, build
from tests.tasks.bench import Collector, Sent

CASES = [
    case
    for case in corpus.read("golden.jsonl.gz")
    if case["name"].startswith("stream_stream-") and "repartition" not in case["description"]
]


class Run:
    """A case on a task that can be thrown away. ``path``: the folder of its stores; None for memory."""

    def __init__(self, case: dict[str, Any], path: Path | None) -> None:
        self.built: Built = build(case)
        topology: Topology = self.built.topology
        defaults = {"default.key.serde": SERDES["string"], "default.value.serde": SERDES["string"]}
        config = StreamsConfig.of({**case["config"], "application.id": "parity", **defaults})
        self.program = TaskProgram.of([topology.as_one], config)
        self.collector = Collector()
        self.offsets = dict.fromkeys(self.program.sources, 0)
        self._path = path
        self.start()

    def start(self) -> None:
        stores = open_task_stores(self._path, self.program.stores.values())
        self.state_manager = StateManager(TaskId(0, 0), self.program, stores, self.collector)
        self.task = Task(self.state_manager, self.collector)
        for topic in self.offsets:
            self.task.set_caught_up(TopicPartition(topic, 0), True)
        self.task.init(0)

    def feed(self, record: dict[str, Any]) -> None:
        topic = record["topic"]
        key_type, value_type = self.built.inputs[topic]
        key = None if record["key"] is None else SERDES[key_type].serialize(record["key"])
        value = None if record["value"] is None else SERDES[value_type].serialize(record["value"])
        self.task.add(RecordBatch(TopicPartition(topic, 0), [key], [value], [record["ts"]], [self.offsets[topic]]))
        self.offsets[topic] += 1
        while self.task.process(1, 0):
            pass

    def commit(self) -> None:
        for _ in self.task.prepare_commit():
            pass
        self.task.complete_commit({name: self._end(change.topic) for name, change in self.program.changelogs.items()})

    def restart(self, lost_disk: bool) -> None:
        self.task.close()
        if lost_disk:
            self._path = None
        self.start()
        for name, changelog in self.program.changelogs.items():
            begin = self.state_manager.changelog_offset(name) or 0
            sent = self._of(changelog.topic)[begin:]
            columns = [each.key for each in sent], [each.value for each in sent], [each.timestamp for each in sent]
            self.state_manager.restore(name, *columns, begin + len(sent))

    def _of(self, topic: str) -> list[Sent]:
        return [each for each in self.collector.sent if each.topic == topic]

    def _end(self, topic: str) -> int:
        return len(self._of(topic))

    def results(self) -> dict[str, list[tuple[Any, ...]]]:
        sinks = dict.fromkeys(topic for topic, _, _ in self.built.sinks)
        return {topic: [(each.key, each.value, each.timestamp) for each in self._of(topic)] for topic in sinks}


def records(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (event for event in case["input"] if "topic" in event)


def played(case: dict[str, Any], path: Path | None, restart_at: int | None, lost_disk: bool, commit_every: int) -> Run:
    run = Run(case, path)
    for number, record in enumerate(records(case)):
        if number == restart_at:
            run.commit()
            run.restart(lost_disk)
        elif number % commit_every == commit_every - 1:
            run.commit()
        run.feed(record)
    run.commit()
    return run


def pairs(results: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[tuple[Any, ...]]]:
    """Leaves out the results of records that had no match: when those come depends on what a task remembers."""
    return {topic: [each for each in rows if b"null" not in (each[1] or b"")] for topic, rows in results.items()}


@pytest.mark.parametrize("how", ["memory", "disk", "another disk"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_join_continues_where_it_was(case: dict[str, Any], how: str, tmp_path: Path) -> None:
    rng = random.Random(f"{case['name']} {how}")
    at, every = rng.randrange(len(list(records(case)))), rng.choice((1, 5, 1000))
    whole = played(case, None, None, False, 1000)
    run = played(case, None if how == "memory" else tmp_path, at, how == "another disk", every)
    if any(step.get("kind") in ("left", "outer") for step in case["topology"]):
        assert pairs(run.results()) == pairs(whole.results())
    else:
        assert run.results() == whole.results()
    whole.task.close()
    run.task.close()
