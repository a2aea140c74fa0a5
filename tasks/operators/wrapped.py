"""An operator of the DSL as a processor, within the processor of a wrapper (KIP-1112)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from typing_extensions import override

from penstock.common.errors import TopologyError
from penstock.common.records import NO_HEADERS, Record
from penstock.tasks.closures import closure_of, make_closure
from penstock.tasks.operators.process import FixedKeyTaskContext, TaskProcessorContext, views_of
from penstock.tasks.record_places import PlacedHeaders
from penstock.tasks.wiring import Edge, StreamEdge, TableEdge, Wiring
from penstock.topology.physical.operators.wrapped import Wrapped, made_by
from penstock.topology.processor_api.fixed_key_processor import FixedKeyProcessor, fixed_key_record
from penstock.topology.processor_api.processor import Processor
from penstock.topology.processor_api.processor_wrapper import Change


class OperatorWiring(Wiring):
    """The wiring of an operator whose successors are reached by way of ``processor``, and of what wraps it."""

    processor: _OperatorProcessor

    @property
    @override
    def forward(self) -> StreamEdge:
        return self.processor.edge(None)

    @property
    @override
    def forward_change(self) -> TableEdge:
        return self.processor.edge(None)


class _OperatorProcessor:
    """An operator as a processor: records enter its closure, and what that emits is forwarded to the context.

    An update of a table is a record whose value is a :class:`Change`.
    """

    def __init__(self, spec: Wrapped, wiring: Wiring) -> None:
        self._task = wiring.context
        self._make = fixed_key_record if spec.fixed_key else Record
        self._context: Any = None
        # Every edge of the operator leads through this object; what it uses besides is what it would use alone.
        stores = {name: wiring.stores[name] for name in spec.inner.stores}
        children = {child: self.edge(child) for child in wiring.children}
        own = {name: getattr(wiring, name) for name in Wiring.__dataclass_fields__}
        inner = OperatorWiring(**{**own, "stores": stores, "children": children})
        vars(inner)["processor"] = self
        self._run: Edge = make_closure(spec.inner, inner)

    def init(self, context: Any) -> None:
        """Take the context, when the task begins."""
        self._context = context

    def process(self, record: Any) -> None:
        """Pass the record to the operator, under its own time and headers."""
        task, value = self._task, record.value
        headers, timestamp = task.headers, task.timestamp
        given = record.headers or None
        task.headers = given if type(headers) is not PlacedHeaders else headers.replaced_by(given)
        task.timestamp = record.timestamp
        try:
            if isinstance(value, Change):
                self._run(record.key, value.new_value, value.old_value, record.timestamp)
            else:
                self._run(record.key, value, record.timestamp)
        finally:
            task.headers, task.timestamp = headers, timestamp

    def close(self) -> None:
        """Does nothing: an operator holds nothing that must be closed when the task ends."""

    def edge(self, child: str | None) -> Edge:
        """Returns the edge to ``child``, or to all children if it is None."""
        task, make = self._task, cast("Any", self._make)

        def run(key: Any, value: Any, *rest: Any) -> None:
            if len(rest) == 2:
                value = Change(value, rest[0])
            self._context.forward(make(key, value, rest[-1], task.headers or NO_HEADERS), child)

        return run


class OperatorAsProcessor(_OperatorProcessor, Processor[Any, Any, Any, Any]):
    """The operator as a :class:`Processor`."""


class OperatorAsFixedKeyProcessor(_OperatorProcessor, FixedKeyProcessor[Any, Any, Any]):
    """The operator as a :class:`FixedKeyProcessor`."""


class _Hosted:
    """The wrapper's processor in its task."""

    LEADS_TO = ("context",)

    def __init__(self, spec: Wrapped, wiring: Wiring) -> None:
        self.name = wiring.name
        inner: type[Any] = OperatorAsFixedKeyProcessor if spec.fixed_key else OperatorAsProcessor
        wanted: type[Any] = FixedKeyProcessor if spec.fixed_key else Processor
        with made_by(lambda: inner(spec, wiring)):
            self.processor: Any = spec.supplier()
        if not isinstance(self.processor, wanted):
            raise TopologyError(
                f"the wrapped supplier of {self.name} returned {self.processor!r}, not a {wanted.__name__}"
            )
        context = FixedKeyTaskContext if spec.fixed_key else TaskProcessorContext
        own = replace(wiring, stores={name: wiring.stores[name] for name in spec.more_stores})
        self.context = context(wiring, views_of(own))


@closure_of(Wrapped)
def _wrapped(spec: Wrapped, wiring: Wiring) -> Edge:
    hosted = _Hosted(spec, wiring)
    wiring.processors.append(hosted)
    process, context, name = hosted.processor.process, wiring.context, wiring.name
    failed = context.failures.in_operator
    make = cast("Any", fixed_key_record if spec.fixed_key else Record)

    def run(key: Any, value: Any, *rest: Any) -> None:
        timestamp = rest[-1]
        context.timestamp = timestamp
        try:
            if len(rest) == 2:
                value = Change(value, rest[0])
            process(make(key, value, timestamp, context.headers or NO_HEADERS))
        except Exception as error:
            failed(error, name, key, value, timestamp)

    return run
