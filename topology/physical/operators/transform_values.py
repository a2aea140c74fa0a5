"""``transform_values`` of a table, as values: the operator, and the look-up if it is not materialised."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from penstock.topology.physical.operators.operator import TableOperator, ValueGetter, called_with
from penstock.topology.processor_api.value_transformer import ValueTransformerWithKeySupplier


@dataclass(frozen=True)
class TableTransformValues(TableOperator):
    """A user's transformer gives the new value, also of null; ``supplier()`` makes a new one for each task."""

    supplier: ValueTransformerWithKeySupplier[Any, Any, Any] = field(metadata=called_with())
    store_names: tuple[str, ...] = ()

    call = "transform_values"
    keeps_key, keeps_value = True, False
    sees_key = sees_value = True
    runs_user_objects = True

    @property
    @override
    def stores(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*super().stores, *self.store_names)))

    @property
    @override
    def stores_by_key(self) -> tuple[str, ...]:
        return super().stores


@dataclass(frozen=True)
class TransformValuesGetter(ValueGetter):
    """The result of a transformer of its own for the value of ``source``, or for null."""

    source: ValueGetter
    supplier: ValueTransformerWithKeySupplier[Any, Any, Any] = field(metadata=called_with())

    call = "transform_values"
    gives_keys = True

    @property
    @override
    def versioned(self) -> bool:
        return self.source.versioned

    @property
    @override
    def stores(self) -> tuple[str, ...]:
        return self.source.stores
