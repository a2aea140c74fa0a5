"""A user's processor: the only operator that pays for ``Record`` objects and a context."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, cast

from typing_extensions import override

from penstock.common.errors import ConfigError, TopologyError, UnknownStateStoreError
from penstock.common.ids import TaskId
from penstock.common.records import NO_HEADERS, Headers, Record, RecordMetadata
from penstock.common.serdes import Serde
from penstock.common.shown import shown_with_type
from penstock.common.time import Duration, to_ms
from penstock.state.contracts import StateStore
from penstock.state.read_only_view import GLOBAL_STORE, SOURCE_STORE, ReadOnlyView
from penstock.tasks.closures import closure_of
from penstock.tasks.context import TaskContext
from penstock.tasks.punctuation import Schedule, following, start_ms
from penstock.tasks.record_places import PlacedHeaders
from penstock.tasks.wiring import Edge, StreamEdge, Wiring
from penstock.topology.arity import checked_function
from penstock.topology.physical.operators.process import AddedProcess, Process, ProcessValues, ReadOnlyStoreProcess
from penstock.topology.processor_api.fixed_key_processor import FixedKeyProcessor, FixedKeyRecord, fixed_key_record
from penstock.topology.processor_api.processor import Processor, ProcessorContext, PunctuationType, Punctuator


@closure_of(Process)
def _process(spec: Process, wiring: Wiring) -> StreamEdge:
    return host_processor(spec, wiring, TaskProcessorContext)


@closure_of(AddedProcess)
def _added_process(spec: AddedProcess, wiring: Wiring) -> StreamEdge:
    return host_processor(spec, wiring, AddedProcessorContext)


@closure_of(ReadOnlyStoreProcess)
def _read_only_store_process(spec: ReadOnlyStoreProcess, wiring: Wiring) -> StreamEdge:
    return host_processor(spec, wiring, ReadOnlyStoreProcessorContext)


@closure_of(ProcessValues)
def _process_values(spec: ProcessValues, wiring: Wiring) -> StreamEdge:
    return host_processor(spec, wiring, FixedKeyTaskContext, FixedKeyProcessor, fixed_key_record)


def host_processor(
    spec: Process,
    wiring: Wiring,
    context: type[TaskProcessorContext],
    wanted: type[Any] = Processor,
    record: Callable[[Any, Any, int, Headers], Any] = Record,
) -> StreamEdge:
    """Make the user's processor for this task, of class ``wanted``, which sees a ``context``, and the closure that
    feeds it records."""
    hosted = TaskProcessor(spec, wiring, context, wanted)
    wiring.processors.append(hosted)
    return hosted.edge(wiring.context, record)


class TaskProcessor:
    """A user's processor in its task: the context it sees, and the closure that feeds it."""

    LEADS_TO = ("context",)

    def __init__(
        self, spec: Process, wiring: Wiring, context: type[TaskProcessorContext], wanted: type[Any] = Processor
    ) -> None:
        self.name = wiring.name
        self.processor: Any = spec.supplier()
        if not isinstance(self.processor, wanted):
            raise TopologyError(
                f"the supplier of processor {self.name} returned {self.processor!r}, not a {wanted.__name__}"
            )
        self.context = context(wiring, views_of(wiring, may_write_source_stores=spec.keeps_source_store))

    def edge(self, context: TaskContext, record: Callable[[Any, Any, int, Headers], Any]) -> StreamEdge:
        """Returns the closure that passes records to ``process``."""
        process, name, failures = self.processor.process, self.name, context.failures

        def run(key: Any, value: Any, timestamp: int) -> None:
            context.timestamp = timestamp
            try:
                process(record(key, value, timestamp, context.headers or NO_HEADERS))
            except Exception as error:
                failures.in_operator(error, name, key, value, timestamp)

        return run


class TaskProcessorContext(ProcessorContext[Any, Any]):
    """The context of a user's processor in its task. ``call``: the method that took its supplier."""

    call = "process"
    LEADS_TO = ("_forward", "_children")

    def __init__(self, wiring: Wiring, stores: Mapping[str, Any]) -> None:
        self.name = wiring.name
        self._context = wiring.context
        self._config = wiring.config
        self._forward = wiring.forward
        self._children = wiring.children
        self._stores = stores
        self._queues = wiring.punctuations

    @property
    @override
    def application_id(self) -> str:
        return self._context.application_id

    @property
    @override
    def task_id(self) -> TaskId:
        return self._context.task_id

    @property
    @override
    def key_serde(self) -> Serde[Any] | None:
        return self._config.default_key_serde

    @property
    @override
    def value_serde(self) -> Serde[Any] | None:
        return self._config.default_value_serde

    @override
    def app_configs(self) -> Mapping[str, Any]:
        return self._config.entries()

    @override
    def app_configs_with_prefix(self, prefix: str) -> Mapping[str, Any]:
        entries = self._config.entries()
        return {key[len(prefix) :]: value for key, value in entries.items() if key.startswith(prefix)}

    @override
    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        # The children see the record's timestamp and headers; afterwards the context is what it was.
        # Only an object of these classes is known to have a timestamp that a record may have.
        if type(record) is not Record and not isinstance(record, (Record, FixedKeyRecord)):
            raise TopologyError(
                f"processor {self.name}: forward takes a Record, such as record.with_value(...), not "
                f"{shown_with_type(record)}"
            )
        given = record.headers or None
        edge = self._forward if child is None else self._child(child)
        context = self._context
        headers, timestamp = context.headers, context.timestamp
        context.headers = given if type(headers) is not PlacedHeaders else headers.replaced_by(given)
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
    def schedule(
        self,
        interval: Duration,
        type: PunctuationType,
        punctuator: Punctuator,
        *,
        start_time: datetime | int | None = None,
    ) -> Schedule:
        interval_ms = to_ms(interval, "a punctuation interval")
        if not isinstance(type, PunctuationType):
            raise TopologyError(
                f"schedule: type must be a PunctuationType, such as PunctuationType.STREAM_TIME, not {type!r}"
            )
        checked_function(punctuator, "schedule: punctuator", "now_ms")
        by_records = type is PunctuationType.STREAM_TIME
        if not by_records and self._context.refuses_wall_clock:
            raise ConfigError(
                f"processor {self.name} schedules a punctuator by the wall clock, which history does not have: what it "
                "does would be missing from results and state. With --allow-wall-clock the backfill takes the schedule "
                "and never calls it; the live application calls it"
            )
        now_ms = self._context.stream_time if by_records else self._context.wall_ms
        if start_time is not None:
            first = start_ms(start_time)
            if first < now_ms and interval_ms:
                first = following(first, interval_ms, now_ms)
        else:
            # Stream time is aligned to 0 and due with the first record; wall-clock time is due after one interval.
            first = 0 if by_records else now_ms + interval_ms
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


class AddedProcessorContext(TaskProcessorContext):
    """The context of a processor of a topology that is built by hand."""

    call = "add_state_store(builder, processor) or connect_processor_and_state_stores"


class ReadOnlyStoreProcessorContext(AddedProcessorContext):
    """The context of the processor that keeps a read-only store: its store is all that it writes."""

    @override
    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        raise TopologyError(
            f"the processor {self.name} of a read-only store called forward: it only keeps the store; let another "
            "processor below the same source forward"
        )


class FixedKeyTaskContext(TaskProcessorContext):
    """The context of a fixed-key processor."""

    call = "process_values"

    @override
    def forward(self, record: Any, child: str | None = None) -> None:
        if not isinstance(record, FixedKeyRecord):
            raise TypeError(
                f"process_values {self.name}: forward takes the FixedKeyRecord that was received, or one derived from "
                f"it, not a {type(record).__name__}"
            )
        super().forward(cast("Record[Any, Any]", record), child)


def views_of(wiring: Wiring, *, may_write_source_stores: bool = False) -> dict[str, Any]:
    """Returns the stores for a user's object at this node: its own, and every global one as read-only. A store that its
    source topic restores can be written only by the processor that keeps it."""
    shared = {
        name: ReadOnlyView(name, _view(store.opened), GLOBAL_STORE) for name, store in wiring.global_stores.items()
    }
    own = {}
    for name, store in wiring.stores.items():
        view = _view(store.opened)
        if store.builder.source_topic is not None and not may_write_source_stores:
            view = ReadOnlyView(name, view, SOURCE_STORE)
        own[name] = view
    return shared | own


def _view(store: StateStore) -> Any:
    view = store.view()
    if view is None:
        raise TopologyError(
            f"store {store.name}: {type(store).__name__}.view() returned None: it must return what a processor uses"
        )
    return view
