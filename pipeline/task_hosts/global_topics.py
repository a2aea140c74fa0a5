"""Global stores of an executor: filled from Kafka before its tasks begin, as on a stream actor that starts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from penstock.common.config import StreamsConfig
from penstock.common.errors import BrokerUnreachableError
from penstock.common.records import RecordBatch
from penstock.kafka.clients import KafkaClients
from penstock.pipeline.offset_ranges import Ranges
from penstock.state.disk.task_stores import open_task_stores
from penstock.tasks.global_state import GlobalStateTask, with_offsets
from penstock.tasks.program import TaskProgram
from penstock.tasks.wiring import Store
from penstock.topology.physical.operators.global_tables import StreamGlobalTableJoin
from penstock.topology.physical.topology import ProcessorNode, Subtopology

_BATCH_RECORDS = 5000
_PATIENCE_S = 120.0


def may_look_into_global_stores(subtopology: Subtopology) -> bool:
    """Returns True if its tasks may read global stores: a join with a global table does, a user's processor could."""
    operators = [node.operator for node in subtopology.nodes if isinstance(node, ProcessorNode)]
    return any(isinstance(each, StreamGlobalTableJoin) or each.runs_user_objects for each in operators)


@dataclass(frozen=True)
class GlobalTopics:
    """The source of global stores: the ``records`` that their topics held when the backfill began."""

    subtopologies: tuple[Subtopology, ...]
    records: Ranges
    clients: KafkaClients
    read: Callable[[Ranges], Iterable[RecordBatch]] | None = None
    """Reads the records; None: from Kafka, by ``clients``."""

    def stores(self, config: StreamsConfig) -> Mapping[str, Store]:
        """Returns the stores, in the memory of this process, with all of the records. Raises RecordError for one that
        cannot be handled, and BrokerUnreachableError if nothing has come for two minutes."""
        if not self.subtopologies:
            return {}
        program = TaskProgram.of(self.subtopologies, config)
        task = GlobalStateTask(program, open_task_stores(None, with_offsets(program)))
        task.init(int(time.time() * 1000))
        self._fill(task)
        return task.stores

    def _fill(self, task: GlobalStateTask) -> None:
        ends = {partition: offsets.end for partition, offsets in self.records.items() if offsets}
        if not ends:
            return
        if self.read is not None:
            for batch in self.read(self.records):
                task.restore(batch, int(time.time() * 1000))
            for _ in task.commit():
                pass
            return
        consumer = self.clients.consumer()
        try:
            consumer.assign({partition: self.records[partition].begin for partition in ends})
            deadline = time.monotonic() + _PATIENCE_S
            while any(consumer.position(partition) < end for partition, end in ends.items()):
                for batch in consumer.poll(_BATCH_RECORDS, 0.1):
                    deadline = time.monotonic() + _PATIENCE_S
                    if known := _before(batch, ends[batch.partition]):
                        task.restore(known, int(time.time() * 1000))
                if time.monotonic() > deadline:
                    raise BrokerUnreachableError(
                        f"the global topics {', '.join(task.topics)} cannot be read: nothing has come for "
                        f"{_PATIENCE_S:.0f} s"
                    )
        finally:
            consumer.close()
        for _ in task.commit():
            pass


def _before(batch: RecordBatch, end: int) -> RecordBatch | None:
    """Returns the records of ``batch`` before ``end``, or None: other executors might not know of later ones."""
    count = sum(offset < end for offset in batch.offsets)
    if not count or count == len(batch):
        return batch if count else None
    return replace(
        batch,
        keys=batch.keys[:count],
        values=batch.values[:count],
        timestamps=batch.timestamps[:count],
        offsets=batch.offsets[:count],
        headers=None if batch.headers is None else batch.headers[:count],
    )
