"""``transform_values`` of a table: a user's transformer in its task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from typing_extensions import override

from penstock.common.errors import TopologyError
from penstock.common.records import Record
from penstock.state.rows.row_formats import NO_TIMESTAMP, Entry
from penstock.tasks.closures import closure_of, make_closure
from penstock.tasks.operators.process import TaskProcessorContext, views_of
from penstock.tasks.operators.table import Getter
from penstock.tasks.operators.updates import materialize
from penstock.tasks.wiring import TableEdge, Wiring
from penstock.topology.physical.operators.transform_values import TableTransformValues, TransformValuesGetter
from penstock.topology.processor_api.processor_wrapper import Change
from penstock.topology.processor_api.value_transformer import ValueTransformerWithKey, ValueTransformerWithKeySupplier


class _TransformerContext(TaskProcessorContext):
    call = "transform_values"

    @override
    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        raise TopologyError(
            f"transform_values {self.name}: a transformer cannot forward; what transform() returns is the result"
        )


class TaskTransformer:
    """A user's transformer in its task, and the context that it sees."""

    LEADS_TO = ("context",)

    def __init__(self, supplier: ValueTransformerWithKeySupplier[Any, Any, Any], wiring: Wiring) -> None:
        self.name = wiring.name
        self.processor: ValueTransformerWithKey[Any, Any, Any] = supplier()
        if not isinstance(self.processor, ValueTransformerWithKey):
            raise TopologyError(
                f"the supplier of transform_values {self.name} returned {self.processor!r}, "
                "not a ValueTransformerWithKey"
            )
        self.context = _TransformerContext(wiring, views_of(wiring))
        wiring.processors.append(self)


@closure_of(TableTransformValues)
def _table_transform_values(spec: TableTransformValues, wiring: Wiring) -> TableEdge:
    transform, context = TaskTransformer(spec.supplier, wiring).processor.transform, wiring.context
    send_old_values = spec.send_old_values
    if spec.store is not None:
        keep = materialize(transform, send_old_values, wiring, wiring.stores[spec.store], skip_nothing=False)

        def run_and_keep(key: Any, new: Any, old: Any, timestamp: int) -> None:
            context.timestamp = timestamp
            keep(key, new, old, timestamp)

        return run_and_keep
    failed, name, forward = wiring.failed, wiring.name, wiring.forward_change

    def run(key: Any, new: Any, old: Any, timestamp: int) -> None:
        context.timestamp = timestamp
        try:
            value = transform(key, new)
            before = transform(key, old) if send_old_values else None
        except Exception as error:
            failed(error, name, key, Change(new, old), timestamp)
            return
        forward(key, value, before, timestamp)

    return run


@closure_of(TransformValuesGetter)
def _transform_values_getter(spec: TransformValuesGetter, wiring: Wiring) -> Getter:
    source: Getter = make_closure(spec.source, wiring)
    transform = transformed_entries(spec, wiring)

    def transformed(key: Any) -> Entry:
        return transform(key, source(key))

    return transformed


def transformed_entries(spec: TransformValuesGetter, wiring: Wiring) -> Callable[[Any, Entry], Entry]:
    """Returns the transformer of looked-up entries: it sees their timestamp, and nothing of the current record."""
    transform, context = TaskTransformer(spec.supplier, wiring).processor.transform, wiring.context

    def transformed(key: Any, entry: Entry) -> Entry:
        value = entry[0]
        then = NO_TIMESTAMP if value is None else entry[1]
        timestamp, headers, partition = context.timestamp, context.headers, context.partition
        context.timestamp, context.headers, context.partition = then, None, None
        try:
            return transform(key, value), then, None, 0
        finally:
            context.timestamp, context.headers, context.partition = timestamp, headers, partition

    return transformed
