"""An operator of the DSL with a wrapper's processor around it, as a value (KIP-1112)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Self

from typing_extensions import override

from penstock.common.errors import TopologyError
from penstock.state.builders import AnyStoreBuilder
from penstock.topology.physical.operators.operator import FilledSerde, Operator, called_with
from penstock.topology.physical.operators.process import Process, ProcessValues
from penstock.topology.physical.operators.stateless import DropNullKeys, Filter, FlatMapValues, MapValues, Peek
from penstock.topology.physical.operators.table import TableToStream
from penstock.topology.processor_api.connected_stores import stores_of
from penstock.topology.processor_api.processor_wrapper import ProcessorWrapper

_FIXED_KEY = (Filter, DropNullKeys, MapValues, FlatMapValues, Peek, TableToStream, ProcessValues)
"""The operators that Kafka Streams has as fixed-key processors."""

_ENTERED: ContextVar[Callable[[], Any]] = ContextVar("the operator that a wrapped supplier makes in this task")


class OperatorSupplier:
    """The supplier that a wrapper gets for an operator of the DSL.

    It makes the operator's processor, and can be called only inside a task.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self) -> Any:
        """Returns a new processor. Raises TopologyError outside of a task."""
        make = _ENTERED.get(None)
        if make is None:
            raise TopologyError(
                f"the supplier of {self._name} was called by its wrapper outside of a task: call it in the supplier "
                "that wrap_processor_supplier returns, not before"
            )
        return make()


@contextmanager
def made_by(make: Callable[[], Any]) -> Iterator[None]:
    """Lets suppliers of operators make what ``make`` returns, while the block runs."""
    token = _ENTERED.set(make)
    try:
        yield
    finally:
        _ENTERED.reset(token)


@dataclass(frozen=True)
class Wrapped(Operator):
    """``inner`` within the processor that ``supplier()`` makes, which may use ``more_stores``."""

    inner: Operator
    supplier: Callable[[], Any] = field(metadata=called_with())
    more_stores: tuple[str, ...] = ()
    fixed_key: bool = False

    call = "processor.wrapper.class"
    sees_key = sees_value = True
    runs_user_objects = wrapped = True

    @property
    @override
    def keeps_key(self) -> bool:
        return self.inner.keeps_key

    @property
    @override
    def keeps_value(self) -> bool:
        return False

    @property
    @override
    def keeps_source(self) -> bool:
        return self.inner.keeps_source

    @property
    @override
    def stores(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.inner.stores, *self.more_stores)))

    @property
    @override
    def stores_by_key(self) -> tuple[str, ...]:
        return self.inner.stores_by_key

    @property
    @override
    def stores_looked_into(self) -> frozenset[str]:
        return self.inner.stores_looked_into.difference(self.more_stores)

    @override
    def with_serdes(self, fill: FilledSerde, node: str) -> Self:
        return replace(self, inner=self.inner.with_serdes(fill, node))


def wrapped(operator: Operator, name: str, wrapper: ProcessorWrapper) -> tuple[Operator, tuple[AnyStoreBuilder, ...]]:
    """Returns the operator of node ``name`` as ``wrapper`` wants it, and the stores that it brings along.

    Raises TopologyError if the wrapper returns something that is no supplier.
    """
    fixed_key = isinstance(operator, _FIXED_KEY)
    wrap: Callable[[str, Any], Any] = (
        wrapper.wrap_fixed_key_processor_supplier if fixed_key else wrapper.wrap_processor_supplier
    )
    inner = operator.supplier if isinstance(operator, Process) else OperatorSupplier(name)
    supplier = wrap(name, inner)
    if not callable(supplier):
        raise TopologyError(f"{type(wrapper).__name__} returned {supplier!r} for {name}, not a supplier of processors")
    stores = stores_of(supplier, "processor.wrapper.class") if supplier is not inner else ()
    names = tuple(store.name for store in stores)
    if isinstance(operator, Process):
        return replace(operator, supplier=supplier, by_wrapper=True).with_stores(names), stores
    return Wrapped(operator, supplier, names, fixed_key), stores
