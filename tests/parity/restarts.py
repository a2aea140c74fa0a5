"""A driver whose task can be thrown away and made again from its changelogs and committed offsets, as after a crash."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typing_extensions import override

from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.records import Headers
from penstock.state.contracts import BulkLoad
from penstock.state.disk.rocksdb import RocksDBTaskStores
from penstock.state.disk.task_stores import open_task_stores
from penstock.testing.collector import ArrivedRecord
from penstock.testing.topology_test_driver import TopologyTestDriver
from penstock.topology.physical.topology import Topology
from tests.parity.play import play

KEPT = ("output", "internal", "stores")
"""The fields in which a restart makes no difference."""
_MOST_KILLS = 3
Row = tuple[bytes | None, bytes | None, int, Headers]


class Kills:
    """Ends a restore by a :class:`KilledError` at a moment that ``random`` chooses, as if the process were killed.

    The moments are those between two changes of the database.
    """

    def __init__(self, random: Random, monkeypatch: pytest.MonkeyPatch) -> None:
        self.random = random
        self._left: int | None = None
        for name in ("write", "ingest"):
            monkeypatch.setattr(RocksDBTaskStores, name, self._between(getattr(RocksDBTaskStores, name)))

    def aim(self) -> None:
        """Ends the restore at one of the next 16 moments."""
        self._left = self.random.randrange(16)

    def spare(self) -> None:
        """Ends the restore at no moment."""
        self._left = None

    def _between(self, change: Callable[..., None]) -> Callable[..., None]:
        def changed(*arguments: Any) -> None:
            self._pass()
            change(*arguments)
            self._pass()

        return changed

    def _pass(self) -> None:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                self.spare()
                raise KilledError


class KilledError(Exception):
    """The process is gone."""


class RestartingDriver(TopologyTestDriver):
    """A driver with :meth:`restart` before any record. ``state``: the folder of the new task's stores; None for memory.

    With ``kills``, stores are restored in portions, by files if they can be, and the process is killed several times
    before that is complete.
    """

    def __init__(
        self, topology: Topology, config: Mapping[str, Any], state: Path | None, kills: Kills | None = None
    ) -> None:
        self._piped: dict[str, list[Row]] = defaultdict(list)
        self._state = state
        self._kills = kills
        super().__init__(topology, config)

    def restart(self) -> None:
        """Throw the task away, which has committed, and begin another one with what Kafka has."""
        with self._running():
            offsets = self._task.offsets()
            self._task.close()
            for _ in range(_MOST_KILLS if self._kills is not None else 0):
                with suppress(KilledError):
                    self._restart(offsets, killed=True)
                self._state_manager.close()
            self._restart(offsets, killed=False)
            self._begin(offsets)

    def _restart(self, offsets: Mapping[TopicPartition, CommittedOffset], killed: bool) -> None:
        self._open(open_task_stores(self._state, self._program.stores.values()))
        self._state_manager.continue_from(offsets)
        if self._kills is not None:
            self._kills.aim() if killed else self._kills.spare()
        for name, log in self._program.changelogs.items():
            rows = self._piped[log.topic] if log.is_source_topic else self._written_to(log.topic)
            if self._kills is None:
                self._restore(name, rows, 0, len(rows))
            else:
                self._restore_in_portions(name, rows, self._kills.random)

    def _written_to(self, topic: str) -> list[Row]:
        return [record[:4] for record in self._collector.topics[topic]]

    def _restore(self, store: str, rows: list[Row], begin: int, end: int, load: BulkLoad | None = None) -> None:
        keys, values, timestamps, headers = zip(*rows[begin:end], strict=True) if rows[begin:end] else ((), (), (), ())
        columns = keys, values, timestamps
        self._state_manager.restore(store, *columns, end, [each or None for each in headers], load)

    def _restore_in_portions(self, store: str, rows: list[Row], random: Random) -> None:
        begin = self._state_manager.changelog_offset(store) or 0
        load = self._state_manager.bulk_load(store, begin)
        while begin < len(rows):
            end = min(begin + random.randrange(1, 9), len(rows))
            self._restore(store, rows, begin, end, load)
            if load is not None and (end == len(rows) or random.random() < 0.4):
                for _ in self._state_manager.write_load(store, load, end):
                    pass
            begin = end

    @override
    def _arrive(self, record: ArrivedRecord) -> None:
        topic, key, value, timestamp, headers = record
        self._piped[topic].append((key, value, timestamp, headers))
        super()._arrive(record)


def forgets(case: dict[str, Any]) -> bool:
    """Returns True if the case shows what no restart knows: when a punctuator is due next, and what a left or outer
    join of streams takes for the smallest timestamp that waits (it may look earlier at what waits: docs/PARITY.md)."""
    return any(
        (step["op"] in ("process", "add_processor") and step["fn"].startswith("tick"))
        or (step["op"] == "stream_stream" and step["kind"] != "inner")
        for step in case["topology"]
    )


def restarted(case: dict[str, Any], number: int, state: Path | None, kills: Kills | None = None) -> dict[str, Any]:
    """Returns the case as it is played if its task is thrown away before record ``number``."""

    def restart(driver: TopologyTestDriver, record: int) -> None:
        if record == number:
            assert isinstance(driver, RestartingDriver)
            driver.restart()

    return play(case, partial(RestartingDriver, state=state, kills=kills), restart)
