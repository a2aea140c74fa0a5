"""A driver whose task can be thrown away and made anew from its changelogs and committed offsets, as after a crash."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from typing_extensions import override

from penstock.common.records import Headers
from penstock.state.disk.task_stores import open_task_stores
from penstock.testing.collector import ArrivedRecord
from penstock.testing.topology_test_driver import TopologyTestDriver
from penstock.topology.physical.topology import Topology
from tests.parity.play import play

KEPT = ("output", "internal", "stores")
"""The fields in which a restart makes no difference."""
Row = tuple[bytes | None, bytes | None, int, Headers]


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
            self._open(open_task_stores(self._state, self._program.stores.values()))
            self._state_manager.goes_on_from(offsets)
            for name, log in self._program.changelogs.items():
                self._restore(name, self._piped[log.topic] if log.is_source_topic else self._written_to(log.topic))
            self._begin(offsets)

    def _written_to(self, topic: str) -> list[Row]:
        return [record[:4] for record in self._collector.topics[topic]]

    def _restore(self, store: str, rows: list[Row]) -> None:
        keys, values, timestamps, headers = zip(*rows, strict=True) if rows else ((), (), (), ())
        self._state_manager.restore(store, keys, values, timestamps, len(rows), [each or None for each in headers])

    @override
    def _arrive(self, record: ArrivedRecord) -> None:
        topic, key, value, timestamp, headers = record
        self._piped[topic].append((key, value, timestamp, headers))
        super()._arrive(record)


def forgets(case: dict[str, Any]) -> bool:
    """Whether the case shows what no restart knows: when a punctuator is due next, and what a left or outer join of
    streams takes for the smallest timestamp that waits (its look at what waits may come earlier: docs/PARITY.md)."""
    return any(
        (step["op"] in ("process", "add_processor") and step["fn"].startswith("tick"))
        or (step["op"] == "stream_stream" and step["kind"] != "inner")
        for step in case["topology"]
    )


def restarted(case: dict[str, Any], number: int, state: Path | None) -> dict[str, Any]:
    """The case as it is played when its task is thrown away before record ``number``."""

    def restart(driver: TopologyTestDriver, record: int) -> None:
        if record == number:
            assert isinstance(driver, RestartingDriver)
            driver.restart()

    return play(case, partial(RestartingDriver, state=state), restart)
