"""Stores that a supplier of processors defines. Mirrors ``ConnectedStoreProvider`` (KIP-401)."""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Any, Protocol

from penstock.common.errors import TopologyError
from penstock.state.builders import AnyStoreBuilder, StoreBuilder


class ConnectedStoreProvider(Protocol):
    """A supplier with a method ``stores``: these stores are added to the topology, and connected to the processor that
    it makes.

    The class of a processor is a supplier too; then ``stores`` is a class method or a static one. Suppliers with a
    store of the same name share it: their builders must be equal. Mirrors ``ConnectedStoreProvider``.

    >>> import penstock as ps
    >>> class Counting(ps.Processor[str, str, str, int]):
    ...     @staticmethod
    ...     def stores() -> list[ps.StoreBuilder[str, int]]:
    ...         supplier = ps.Stores.persistent_key_value_store("counts")
    ...         return [ps.Stores.key_value_store_builder(supplier, ps.Serdes.string(), ps.Serdes.long())]
    >>> [builder.name for builder in Counting.stores()]
    ['counts']
    """

    def stores(self) -> Collection[StoreBuilder[Any, Any]]:
        """Returns the builders of the stores."""


def stores_of(supplier: Any, call: str) -> tuple[AnyStoreBuilder, ...]:
    """Returns the stores that ``supplier``, given to ``call``, defines; for a partial, those of its function.

    Raises TopologyError if ``stores`` cannot be called or returns something else.
    """
    while isinstance(supplier, functools.partial):
        supplier = supplier.func
    provide = getattr(supplier, "stores", None)
    if provide is None:
        return ()
    name = getattr(supplier, "__qualname__", type(supplier).__qualname__)
    try:
        builders = tuple(provide())
    except TypeError as error:
        raise TopologyError(
            f"{call}: {name}.stores() returns the stores of a supplier, and could not be called without arguments: "
            f"{error}. In the class of a processor it must be a class method or a static method"
        ) from error
    for builder in builders:
        if not isinstance(builder, StoreBuilder):
            raise TopologyError(
                f"{call}: {name}.stores() must give StoreBuilders, such as Stores.key_value_store_builder(...), "
                f"not {builder!r}"
            )
    return builders
