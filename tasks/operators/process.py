"""A user's processor: the only operator that pays for ``Record`` objects and a context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from penstock.common.errors import TopologyError, UnknownStateStoreError
from penstock.common.ids import TaskId
from penstock.common.records import NO_HEADERS, Record, RecordMetadata
from penstock.common.time import Duration, to_ms
from penstock.state.contracts import StateStore
from penstock.state.read_only_view import ReadOnlyView
from penstock.tasks.closures import closure_of
from penstock.tasks.context import TaskContext
from penstock.tasks.punctuation import PunctuationQueue, Schedule
from penstock.tasks.wiring import Edge, StreamEdge, Wiring
from penstock.topology.arity import checked_function
from penstock.topology.physical.operators import Process
from penstock.topology.processor import Processor, ProcessorContext, PunctuationType, Punctuator


@closure_of(Process)
def _process(spec: Process, wiring: Wiring) -> StreamEdge:
    return host_processor(spec, wiring, TaskProcessorContext)


def host_processor(spec: Process, wiring: Wiring, context: type[TaskProcessorContext]) -> StreamEdge:
    """Make the user's processor for this task, which sees a ``context``, and the closure that feeds it."""
    hosted = TaskProcessor(spec, wiring, context)
    wiring.processors.append(hosted)
    return hosted.edge(wiring.context)


class TaskProcessor:
    """A user's processor in its task: the context it sees, and the closure that feeds it."""

    def __init__(self, spec: Process, wiring: Wiring, context: type[TaskProcessorContext]) -> None:
        self.name = wiring.name
        self.processor: Processor[Any, Any, Any, Any] = spec.supplier()
        if not isinstance(self.processor, Processor):
            raise TopologyError(f"the supplier of processor {self.name} returned {self.processor!r}, not a Processor")
        self.context = context(
            self.name, wiring.context, wiring.forward, wiring.children, views_of(wiring), wiring.punctuations
        )

    def edge(self, context: TaskContext) -> StreamEdge:
        """The closure that hands records to ``process``."""
        process, name = self.processor.process, self.name

        def run(key: Any, value: Any, timestamp: int) -> None:
            context.timestamp = timestamp
            try:
                process(Record(key, value, timestamp, context.headers or NO_HEADERS))
            except Exception as error:
                context.failed(error, name, key)

        return run


class TaskProcessorContext(ProcessorContext[Any, Any]):
    """What a user's processor is given in its task. ``call``: the method that took its supplier."""

    call = "process"

    def __init__(
        self,
        name: str,
        context: TaskContext,
        forward: Edge,
        children: Mapping[str, Edge],
        stores: Mapping[str, Any],
        queues: Mapping[PunctuationType, PunctuationQueue],
    ) -> None:
        self.name = name
        self._context = context
        self._forward = forward
        self._children = children
        self._stores = stores
        self._queues = queues

    @property
    @override
    def application_id(self) -> str:
        return self._context.application_id

    @property
    @override
    def task_id(self) -> TaskId:
        return self._context.task_id

    @override
    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        # The children see the record's timestamp and headers; afterwards the context is what it was.
        edge = self._forward if child is None else self._child(child)
        context = self._context
        headers, timestamp = context.headers, context.timestamp
        context.headers = record.headers or None
        context.timestamp = record.timestamp
        try:
            edge(record.key, record.value, record.timestamp)
        finally:
            context.headers, context.timestamp = headers, timestamp

    def _child(self, name: str) -> Edge:
        if name not in self._children:
            known = ", ".join(self._children) or "none"
            raise TopologyError(f"processor {self.name} has no child {name!r}; its children: {known}")
        return self._children[name]

    @override
    def schedule(self, interval: Duration, type: PunctuationType, punctuator: Punctuator) -> Schedule:
        # Stream time is aligned to 0 and due with the first record; wall-clock time is due after one interval.
        interval_ms = to_ms(interval, "a punctuation interval")
        checked_function(punctuator, "schedule: punctuator", "now_ms")
        first = 0 if type is PunctuationType.STREAM_TIME else self._context.wall_ms + interval_ms
        return self._queues[type].schedule(self.name, first, interval_ms, punctuator)

    @override
    def get_state_store(self, name: str) -> Any:
        if name not in self._stores:
            known = ", ".join(sorted(self._stores)) or "none"
            raise UnknownStateStoreError(
                f"processor {self.name} is not connected to a store named {name!r}; connected: {known}. "
                f"Name the store in {self.call}(...)"
            )
        return self._stores[name]

    @override
    def commit(self) -> None:
        self._context.commit_requested = True

    @override
    def record_metadata(self) -> RecordMetadata | None:
        return self._context.metadata()

    @override
    def current_stream_time_ms(self) -> int:
        return self._context.stream_time

    @override
    def current_system_time_ms(self) -> int:
        return self._context.wall_ms


def views_of(wiring: Wiring) -> dict[str, Any]:
    """What a user's object at this node gets: its own stores, and to read every global one."""
    shared = {name: ReadOnlyView(name, _view(store.opened)) for name, store in wiring.global_stores.items()}
    return shared | {name: _view(store.opened) for name, store in wiring.stores.items()}


def _view(store: StateStore) -> Any:
    view = store.view()
    if view is None:
        raise TopologyError(
            f"store {store.name}: {type(store).__name__}.view() returned None: it must return what a processor uses"
        )
    return view
