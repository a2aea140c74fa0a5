"""The versioned cases again, with the task thrown away between two records and restored from its changelogs."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pytest

from penstock.common.config import StreamsConfig
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.records import Headers, RecordBatch
from penstock.state.disk.task_stores import open_task_stores
from penstock.tasks.program import TaskProgram
from penstock.tasks.state_manager import StateManager
from penstock.tasks.task import Task
from tests.parity import corpus
from tests.parity.build import SERDES, build

CASES = [case for case in corpus.read("golden.jsonl.gz") if case["name"].startswith("versioned-")]
TopicRecord = tuple[bytes | None, bytes | None, int, Headers | None]


class Life:
    """The tasks of one case, one after the other, and the topics that outlive them."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.built = build(case)
        serde = SERDES["string"]
        self.config = StreamsConfig.of(
            {**case["config"], "application.id": "parity", "default.key.serde": serde, "default.value.serde": serde}
        )
        self.topics: dict[str, list[TopicRecord]] = defaultdict(list)
        self.committed: dict[TopicPartition, Any] = {}

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None = None,
        partition: int = -1,
    ) -> None:
        self.topics[topic].append((key, value, timestamp, headers))

    def partitions(self, topic: str) -> int:
        return 1

    def begin(self, directory: Path | None) -> None:
        program = TaskProgram.of([self.built.topology.as_one], self.config)
        stores = open_task_stores(directory, program.stores.values())
        self.manager = StateManager(TaskId(0, 0), program, stores, self)
        for store, changelog in program.changelogs.items():
            begin = self.manager.changelog_offset(store) or 0
            if records := self.topics[changelog.topic][begin:]:
                keys, values, timestamps, _ = map(list, zip(*records, strict=True))
                self.manager.restore(store, keys, values, timestamps, begin + len(records))
        self.changelogs = {store: log.topic for store, log in program.changelogs.items()}
        self.task = Task(self.manager, self)
        for topic in program.sources:
            self.task.set_caught_up(TopicPartition(topic, 0), True)
        self.task.resume(self.committed)
        self.task.init(0)

    def feed(self, record: dict[str, Any]) -> None:
        """Processes one record and commits."""
        topic = record["topic"]
        key_type, value_type = self.built.inputs[topic]
        key, value = record["key"], record["value"]
        headers = [(name, text.encode()) for name, text in record.get("headers", {}).items()]
        key = None if key is None else SERDES[key_type].serialize(key)
        value = None if value is None else SERDES[value_type].serialize(value)
        offset = len(self.topics[topic])
        self.topics[topic].append((key, value, record["ts"], None))
        columns: list[Headers | None] | None = [headers] if headers else None
        self.task.add(RecordBatch(TopicPartition(topic, 0), [key], [value], [record["ts"]], [offset], columns))
        while self.task.process(1, 0):
            pass
        for _ in self.task.prepare_commit():
            pass
        self.committed = self.task.offsets()
        self.task.complete_commit({store: len(self.topics[topic]) for store, topic in self.changelogs.items()})


def shown(case: dict[str, Any]) -> dict[str, list[Any]]:
    """Returns what Kafka Streams wrote, by topic."""
    found: dict[str, list[Any]] = {}
    for step in case["topology"]:
        if step["op"] == "to":
            records = case["output"][step["topic"]]
            found[step["topic"]] = [(each["key"], each["value"], each["ts"]) for each in records]
    for topic, records in case["internal"].items():
        found[topic] = [(key, value, timestamp) for key, value, timestamp in records]
    return found


@pytest.mark.parametrize("where", ["memory", "another disk", "the same disk"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_task_that_is_restored_continues_as_if_nothing_had_happened(
    case: dict[str, Any], where: str, tmp_path: Path
) -> None:
    life = Life(case)
    records = case["input"]
    cut = Random(case["name"]).randrange(len(records))
    directories = {
        "memory": (None, None),
        "another disk": (tmp_path / "one", tmp_path / "other"),
        "the same disk": (tmp_path / "one", tmp_path / "one"),
    }[where]
    for directory, part in zip(directories, (records[:cut], records[cut:]), strict=True):
        life.begin(directory)
        for record in part:
            life.feed(record)
        life.task.close()
    for topic, expected in shown(case).items():
        own = topic.startswith("parity-")
        written = [
            (key, value, None if timestamp < 0 else timestamp) for key, value, timestamp, _ in life.topics[topic]
        ]
        assert [
            tuple(None if part is None else part.hex() if own else part.decode() for part in record[:2]) + record[2:]
            for record in written
        ] == expected
