"""Operators that call out: a record that enters waits in a machine (:mod:`penstock.tasks.calls`), and its result is
forwarded later."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from penstock.common.errors import TopologyError
from penstock.common.ids import TopicPartition
from penstock.common.records import NO_HEADERS, Record, RecordMetadata
from penstock.common.shown import shown_with_type
from penstock.state.write_buffer.sizes import object_bytes, strides
from penstock.tasks.calls.batch_machine import BatchMachine
from penstock.tasks.calls.element import Element
from penstock.tasks.calls.equality import chain_of, digest, same_of
from penstock.tasks.calls.machine import CallMachine, tried
from penstock.tasks.calls.task_calls import CallingOperator, TaskCalls
from penstock.tasks.closures import closure_of
from penstock.tasks.context import Remembered, TaskContext
from penstock.tasks.record_places import PlacedHeaders
from penstock.tasks.wiring import StreamEdge, Wiring
from penstock.topology.physical.operators.calls import CallOperator, MapBatch, MapValuesAsync, ProcessAsync
from penstock.topology.processor_api.call_context import CallContext

Arguments = Callable[[Any], tuple[Any, ...]]


@closure_of(MapValuesAsync)
def _map_values_async(spec: MapValuesAsync, wiring: Wiring) -> StreamEdge:
    forward, shares = wiring.forward, spec.calls.shares

    def emit(element: Element) -> None:
        forward(element.key, element.result, element.timestamp)

    def arguments(element: Element) -> tuple[Any, ...]:
        return (element.value,)

    same = (lambda element: same_of(element.value)) if shares else None
    return _edge(spec, wiring, spec.mapper, arguments, emit, same)


@closure_of(ProcessAsync)
def _process_async(spec: ProcessAsync, wiring: Wiring) -> StreamEdge:
    forward, context, failed, name = wiring.forward, wiring.context, wiring.failed, wiring.name

    def emit(element: Element) -> None:
        try:
            records = _records(element.result)
        except Exception as error:
            failed(error, name, element.key, element.value, element.timestamp)
            return
        headers, timestamp = context.headers, context.timestamp
        for record in records:
            given = record.headers or None
            context.headers = given if type(headers) is not PlacedHeaders else headers.replaced_by(given)
            context.timestamp = record.timestamp
            forward(record.key, record.value, record.timestamp)
        context.headers, context.timestamp = headers, timestamp

    def arguments(element: Element) -> tuple[Any, ...]:
        return (Record(element.key, element.value, element.timestamp, element.headers or NO_HEADERS),)

    return _edge(spec, wiring, spec.function, arguments, emit)


@closure_of(MapBatch)
def _map_batch(spec: MapBatch, wiring: Wiring) -> StreamEdge:
    forward = wiring.forward

    def emit(element: Element) -> None:
        forward(element.key, element.result, element.timestamp)

    def arguments(batch: list[Element]) -> tuple[Any, ...]:
        values = [element.value for element in batch]
        return (_table(values) if spec.arrow else values,)

    machine = BatchMachine(spec.calls, spec.max_records, spec.max_wait_ms, _listed, in_order=wiring.emits_in_order)
    return _edge(spec, wiring, spec.function, arguments, emit, machine=machine)


def _table(values: list[Any]) -> Any:
    """Returns an Arrow table: a row for each value, whose columns are the fields of a dict, or one column ``value``."""
    import pyarrow as pa

    rows = values if all(isinstance(value, dict) for value in values) else [{"value": value} for value in values]
    return pa.Table.from_pylist(rows)


def _listed(result: Any) -> list[Any]:
    """Returns the results of a batch as Python objects: those of a list, an Arrow table or array, a NumPy array."""
    for name in ("to_pylist", "tolist"):
        if (convert := getattr(result, name, None)) is not None:
            result = convert()
            break
    if not isinstance(result, list | tuple):
        raise TypeError(
            f"map_batch got {shown_with_type(result)} from its function: return a list, or an Arrow table or array, "
            "with a result for each value"
        )
    return list(result)


def _records(given: Any) -> list[Record[Any, Any]]:
    if given is None:
        return []
    if isinstance(given, Record) or not isinstance(given, Iterable):
        raise TypeError(
            f"process_async got {shown_with_type(given)} from its function: return a list of Records, [] for none"
        )
    records = list(given)
    for each in records:
        if not isinstance(each, Record):
            raise TypeError(
                f"process_async got {shown_with_type(each)} among the results of its function, not a Record"
            )
    return records


def _edge(
    spec: CallOperator,
    wiring: Wiring,
    function: Callable[..., Any],
    arguments: Arguments,
    emit: Callable[[Element], None],
    same: Callable[[Element], Hashable] | None = None,
    machine: CallMachine | None = None,
) -> StreamEdge:
    """Returns the closure that takes records in, and adds the operator to the calls of its task."""
    calls, context = wiring.calls, wiring.context
    if calls is None:
        raise TopologyError(f"{wiring.name}: the processors of a global store cannot call out")
    if machine is None:
        machine = CallMachine(spec.calls, in_order=wiring.emits_in_order)
    if spec.with_context:
        arguments = _with_context(arguments, wiring)
    calls.operators.append(CallingOperator(wiring.name, machine, function, arguments, emit, _give_up(wiring)))
    submit, source, chains, size = machine.submit, context.place, machine.chains_keys, _sizes()
    lineage, failures = _lineages(context, calls), context.failures

    def run(key: Any, value: Any, timestamp: int) -> None:
        partition, offset = source()
        headers = context.headers
        element = Element(
            key,
            value,
            timestamp,
            headers or None,
            partition,
            offset,
            lineage(partition, offset, key),
            calls.time,
            calls.partition_time,
            size(key, value),
            chain_of(key) if chains and key is not None else None,
        )
        if same is not None:
            element.same = same(element)
        if failures.raw_of is not None and partition is not None:
            element.raw = context.raw() or failures.raw_of(partition, offset)
        submit(element)

    _hold_idle_time_back(machine, wiring)
    return run


def _lineages(context: TaskContext, calls: TaskCalls) -> Callable[[TopicPartition | None, int, Any], str]:
    """Returns a function that tells apart the elements of one place: it numbers those that follow each other."""
    last: dict[bool, tuple[object, int]] = {}

    def run(partition: TopicPartition | None, offset: int, key: Any) -> str:
        above = calls.lineage
        if not above:
            if partition is None:
                above = f"@{context.punctuated_ms}/"
            elif context.is_held_back:
                # A flush comes to the updates that one record has led to in any order, and to others between them.
                above = f"{digest(key)}/"
        place = partition, offset, above
        before, number = last.get(partition is None, (None, 0))
        number = number + 1 if place == before else 0
        last[partition is None] = place, number
        return f"{above}{number}."

    return run


def _hold_idle_time_back(machine: CallMachine, wiring: Wiring) -> None:
    """Keeps the wall clock from advancing the time of operators downstream while a record is here."""
    wiring.advances_when_idle(Remembered(), lambda time: None, now=lambda: -1, holds=lambda: bool(machine.unfinished))


def _with_context(arguments: Arguments, wiring: Wiring) -> Arguments:
    context = wiring.context
    prefix = f"{context.application_id}/{context.task_id}/{wiring.name}"

    def run(element: Element) -> tuple[Any, ...]:
        source = element.source
        metadata = None if source is None else RecordMetadata(*source, element.offset)
        place = "" if source is None else f"{source.topic}/{source.partition}/{element.offset}/"
        return (
            *arguments(element),
            CallContext(
                element.key,
                element.timestamp,
                tuple(element.headers or ()),
                metadata,
                element.tries,
                f"{prefix}/{place}{element.lineage.rstrip('.')}",
            ),
        )

    return run


def _give_up(wiring: Wiring) -> Callable[[Element], None]:
    failed, name = wiring.failed_call, wiring.name

    def run(element: Element) -> None:
        error = element.error
        assert error is not None
        if element.number >= 0:  # one that has shared a call has its error, too
            spent_ms = element.ended_ms - element.started_ms
            error.add_note(f"after {tried(element.tries)} in {spent_ms:,.0f} ms")
        failed(error, name, element.key, element.value, element.timestamp)

    return run


def _sizes() -> Callable[[Any, Any], int]:
    """Returns a function that estimates the bytes of a record: it measures one record of 32, and each value that is
    text or bytes."""
    stride, left, mean = strides(), 0, 0

    def run(key: Any, value: Any) -> int:
        nonlocal left, mean
        if type(value) is bytes or type(value) is str:
            return len(value) + 300
        left -= 1
        if left < 0:
            left = stride()
            size = object_bytes(key) + object_bytes(value) + 300
            mean = size if not mean else (3 * mean + size) // 4
        return mean

    return run
