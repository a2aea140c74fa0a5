"""A driver whose task can be thrown away and made anew from its changelogs and committed offsets, as after a crash."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from penstock.common.ids import TaskId, TopicPartition
from penstock.common.records import Headers
from penstock.state.disk.task_stores import open_task_stores
from penstock.tasks.state_manager import StateManager
from penstock.tasks.task import Task
from penstock.testing.topology_test_driver import TopologyTestDriver
from penstock.testing.watched_rows import WatchedTaskStores
from penstock.topology.physical.topology import Topology

Row = tuple[bytes | None, bytes | None, int]


class RestartingDriver(TopologyTestDriver):
    """:meth:`restart` before any record; ``state``: where the new task's stores are, None for memory."""

    def __init__(self, topology: Topology, config: Mapping[str, Any], state: Path | None) -> None:
        self._piped: dict[str, list[Row]] = defaultdict(list)
        self._state = state
        super().__init__(topology, config)

    def restart(self) -> None:
        """Throw the task away, which has committed, and begin another one with what Kafka has."""
        with self._running():
            offsets = self._task.offsets()
            self._task.close()
            changelogs = self._program.changelogs
            logs = {name: log.topic for name, log in changelogs.items() if not log.is_source_topic}
            self._rows = WatchedTaskStores(open_task_stores(self._state, self._program.stores.values()), logs)
            self._collector.logged = {topic: self._rows.logged[name] for name, topic in logs.items()}
            self._state_manager = StateManager(TaskId(0, 0), self._program, self._rows, self._collector)
            self._state_manager.goes_on_from(offsets.values())
            for name, log in changelogs.items():
                self._restore(name, self._piped[log.topic] if log.is_source_topic else self._written_to(log.topic))
            self._task = Task(self._state_manager, self._collector, self._globals.stores, clock_stands=True)
            for topic in self._offsets:
                self._task.set_caught_up(TopicPartition(topic, 0), True)
            self._task.resume(offsets)
            self._task.init(self._now_ms)
            self._work()

    def _written_to(self, topic: str) -> list[Row]:
        return [(record.key, record.value, record.timestamp) for record in self._collector.topics[topic]]

    def _restore(self, store: str, rows: list[Row]) -> None:
        keys, values, timestamps = zip(*rows, strict=True) if rows else ((), (), ())
        self._state_manager.restore(store, keys, values, timestamps, len(rows))

    @override
    def _enqueue(self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers) -> None:
        self._piped[topic].append((key, value, timestamp))
        super()._enqueue(topic, key, value, timestamp, headers)
