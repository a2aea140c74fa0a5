"""The global stores of a driver: kept record by record, as its task is."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import count

from penstock.common.config import StreamsConfig
from penstock.common.errors import RuleBrokenError
from penstock.common.ids import TopicPartition
from penstock.common.patience import Patience
from penstock.common.records import Headers, RecordBatch
from penstock.state.disk.task_stores import open_task_stores
from penstock.tasks.global_state import GlobalStateTask, with_offsets
from penstock.tasks.program import TaskProgram
from penstock.tasks.wiring import Store
from penstock.testing.tracked_serdes import tracked_serdes
from penstock.testing.tracker import tracked_functions
from penstock.topology.physical.topology import Topology

_PATIENCE = Patience(10.0, lambda error: error)


class DrivenGlobalStores:
    """All global stores of ``topology``, in memory; their topics have one partition. ``lost`` takes note of values that
    do not come back from their serde as they were."""

    def __init__(self, topology: Topology, config: StreamsConfig, lost: list[RuleBrokenError]) -> None:
        program = TaskProgram.of(list(map(tracked_functions, topology.global_subtopologies)), config)
        self._lost = lost
        program = tracked_serdes(program, lost.append)
        self._task = GlobalStateTask(program, open_task_stores(None, with_offsets(program)))
        self._offsets = dict.fromkeys(self._task.topics, 0)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that they are kept from."""
        return self._task.topics

    @property
    def stores(self) -> Mapping[str, Store]:
        """The stores, which every processor may read."""
        return self._task.stores

    @property
    def dropped_records(self) -> int:
        """Records that the stores could not take."""
        return self._task.dropped_records

    def init(self, now_ms: int) -> None:
        """Initialise the processors that keep stores."""
        self._task.init(now_ms)

    def pipe(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers, now_ms: int
    ) -> None:
        """Update the store that is kept from ``topic``, and commit it. Raises RecordError and RuleBrokenError."""
        offset = self._offsets[topic]
        self._offsets[topic] = offset + 1
        columns: list[Headers | None] | None = [headers] if headers else None
        batch = RecordBatch(TopicPartition(topic, 0), [key], [value], [timestamp], [offset], columns)
        self._task.update(batch, now_ms)
        attempts = count(1)
        while waits := self._task.waits_for_serdes:
            _PATIENCE.wait(next(iter(waits.values()))[1], next(attempts))
            self._task.ask_serdes(now_ms, at_once=True)
        deque(self._task.commit(), maxlen=0)
        if self._lost:
            raise self._lost[0]
        self._task.state_manager.forget_objects()

    def close(self) -> None:
        """Close processors and stores."""
        self._task.close()
