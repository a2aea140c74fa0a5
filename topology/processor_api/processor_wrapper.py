"""``ProcessorWrapper``: gets every processor of a topology, including those of the DSL (KIP-1112)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError
from penstock.common.shown import shown_with_type
from penstock.topology.processor_api.fixed_key_processor import FixedKeyProcessorSupplier
from penstock.topology.processor_api.processor import ProcessorSupplier

V = TypeVar("V")

KEY = "processor.wrapper.class"


class ProcessorWrapper:
    """Gets the name and the supplier of each processor when the topology is built, and may put its own around it.

    Use it to do something at every step: log, measure time, write a trace to the headers, put ``try`` around
    ``process``. Give it, a class or an object, as ``processor.wrapper.class`` to :meth:`StreamsBuilder.build` or
    :class:`Topology`, and give the application the same configuration. This class itself wraps nothing. A wrapped
    supplier may define stores (:class:`ConnectedStoreProvider`): they are connected to its processor alone.

    Operators of the DSL are wrapped as processors whose records are those of the operator; of a table the values are
    :class:`Change`. ``filter``, ``map_values``, ``flat_map_values``, ``peek`` and ``to_stream`` are fixed-key
    processors, as in Kafka Streams; processors that keep global and read-only stores are not wrapped. With a wrapper
    each record costs several times as much. Mirrors ``ProcessorWrapper``.
    """

    def configure(self, config: Mapping[str, Any]) -> None:
        """Called once, before the first processor is wrapped, with the configuration with which the topology is
        built."""

    def wrap_processor_supplier(
        self, name: str, supplier: ProcessorSupplier[Any, Any, Any, Any]
    ) -> ProcessorSupplier[Any, Any, Any, Any]:
        """Returns the supplier to use for the processor ``name`` in place of ``supplier``."""
        return supplier

    def wrap_fixed_key_processor_supplier(
        self, name: str, supplier: FixedKeyProcessorSupplier[Any, Any, Any]
    ) -> FixedKeyProcessorSupplier[Any, Any, Any]:
        """Like :meth:`wrap_processor_supplier`, for a processor that cannot change keys."""
        return supplier


@dataclass(frozen=True, slots=True)
class Change(Generic[V]):
    """An update of a table as a wrapper sees it: its value now, and, if an operator needs it, the one before; None if
    there is none. Mirrors ``Change``."""

    new_value: V | None
    old_value: V | None


def wrapper_of(config: Mapping[str, Any] | StreamsConfig | None) -> ProcessorWrapper | None:
    """Returns the wrapper that ``config`` names, configured, or None. Raises ConfigError for one that is no wrapper."""
    entries = config.entries() if isinstance(config, StreamsConfig) else dict(config or {})
    given = entries.get(KEY)
    if given is None:
        return None
    require_wrapper(given)
    wrapper: ProcessorWrapper = given() if isinstance(given, type) else given
    wrapper.configure(entries)
    return wrapper


def require_wrapper(given: object) -> None:
    """Raises ConfigError unless ``given`` is a ProcessorWrapper or a class of them."""
    kind = given if isinstance(given, type) else type(given)
    if not issubclass(kind, ProcessorWrapper):
        raise ConfigError(f"configuration key {KEY!r}: a ProcessorWrapper is needed, not {shown_with_type(given)}")
