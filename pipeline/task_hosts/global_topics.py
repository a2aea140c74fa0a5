"""Global stores of an executor: filled before its tasks begin, as on a stream actor that starts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from penstock.common.config import StreamsConfig
from penstock.common.offset_ranges import Ranges
from penstock.common.records import RecordBatch
from penstock.state.disk.task_stores import open_task_stores
from penstock.tasks.global_state import GlobalStateTask, with_offsets
from penstock.tasks.program import TaskProgram
from penstock.tasks.wiring import Store
from penstock.topology.physical.operators.global_tables import StreamGlobalTableJoin
from penstock.topology.physical.topology import ProcessorNode, Subtopology


def may_look_into_global_stores(subtopology: Subtopology) -> bool:
    """Returns True if its tasks may read global stores: a join with a global table does, a user's processor could."""
    operators = [node.operator for node in subtopology.nodes if isinstance(node, ProcessorNode)]
    return any(isinstance(each, StreamGlobalTableJoin) or each.runs_user_objects for each in operators)


@dataclass(frozen=True)
class GlobalTopics:
    """The source of global stores: the ``records`` that their topics held when the backfill began."""

    subtopologies: tuple[Subtopology, ...]
    records: Ranges
    read: Callable[[Ranges], Iterable[RecordBatch]]
    """Reads records, one partition after the other."""

    def stores(self, config: StreamsConfig) -> Mapping[str, Store]:
        """Returns the stores, in the memory of this process, with all of the records. Raises RecordError for one that
        cannot be handled, and what ``read`` raises."""
        if not self.subtopologies:
            return {}
        program = TaskProgram.of(self.subtopologies, config)
        task = GlobalStateTask(program, open_task_stores(None, with_offsets(program)))
        task.init(int(time.time() * 1000))
        for batch in self.read(self.records):
            task.restore(batch, int(time.time() * 1000))
        for _ in task.commit():
            pass
        return task.stores
