"""A user's class that makes a table's values, with stores and a clock: what ``KTable.transform_values`` takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Never, TypeVar

from penstock.common.errors import TopologyError
from penstock.topology.arity import checked_function
from penstock.topology.processor_api.processor import ProcessorContext

K = TypeVar("K")
V = TypeVar("V")
VR = TypeVar("VR")


class ValueTransformerWithKey(Generic[K, V, VR]):
    """One instance per task, and one more for each operator that looks into a table that is not materialised.

    All methods run in the task's thread. Mirrors ``ValueTransformerWithKey``.
    """

    def init(self, context: ProcessorContext[Never, Never]) -> None:
        """Called once, after the task's stores are restored and before the first record.

        ``context`` has stores, schedules and clocks, but cannot forward: the only result is the value that
        ``transform`` returns.
        """

    def transform(self, read_only_key: K, value: V | None) -> VR | None:
        """Returns the new value of each update; ``value`` is None for a deletion, and None deletes.

        If an operator downstream needs old values, and the result is not materialised, it is also called for these. It
        must not change the key.
        """
        raise NotImplementedError(f"{type(self).__name__} must define transform()")

    def close(self) -> None:
        """Called once when the task is closed; not promised after a crash. Do not close stores."""


ValueTransformerWithKeySupplier = Callable[[], ValueTransformerWithKey[K, V, VR]]
"""Makes a new transformer at each call: an instance that is returned twice is an error."""


def checked_transformer_supplier(supplier: ValueTransformerWithKeySupplier[Any, Any, Any]) -> None:
    """Raises TopologyError unless ``supplier`` makes a new transformer, with the right methods, at each call."""
    if isinstance(supplier, ValueTransformerWithKey):
        raise TopologyError(
            f"transform_values: give a supplier that makes transformers, such as the class {type(supplier).__name__}, "
            "not a transformer: each task needs one of its own"
        )
    checked_function(supplier, "transform_values: supplier")
    first, second = supplier(), supplier()
    if not isinstance(first, ValueTransformerWithKey):
        raise TopologyError(
            "transform_values: the supplier must make a ValueTransformerWithKey, "
            f"not {first!r} ({type(first).__name__})"
        )
    if first is second:
        raise TopologyError(
            "transform_values: the supplier returned the same transformer twice; it must make a new one at each call"
        )
    kind = type(first).__name__
    checked_function(first.init, f"transform_values: {kind}.init", "context")
    checked_function(first.transform, f"transform_values: {kind}.transform", "read_only_key", "value")
    checked_function(first.close, f"transform_values: {kind}.close")
