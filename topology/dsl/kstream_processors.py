"""The methods of ``KStream`` that take processors, and ``print``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from penstock.common.errors import TopologyError
from penstock.common.shown import shown_with_type
from penstock.topology.dsl.kstream_joins import KStreamJoins
from penstock.topology.dsl.stream_base import NameLike, StreamHead, given_name
from penstock.topology.logical.processors import ProcessorOperation
from penstock.topology.naming import checked_name
from penstock.topology.options.printed import Printed
from penstock.topology.physical.operators.process import Print, Process, ProcessValues
from penstock.topology.processor_api.connected_stores import stores_of
from penstock.topology.processor_api.fixed_key_processor import FixedKeyProcessorSupplier, checked_fixed_key_supplier
from penstock.topology.processor_api.processor import ProcessorSupplier, checked_supplier

if TYPE_CHECKING:
    from penstock.topology.dsl.kstream import KStream

K = TypeVar("K")
V = TypeVar("V")
KR = TypeVar("KR")
VR = TypeVar("VR")


class KStreamProcessors(KStreamJoins[K, V]):
    """The part of ``KStream`` that takes user processors, and prints."""

    def process(
        self, supplier: ProcessorSupplier[K, V, KR, VR], *store_names: str, named: NameLike | None = None
    ) -> KStream[KR, VR]:
        """Returns the records that a user's :class:`Processor` forwards. Mirrors ``process``.

        ``supplier()`` makes a new processor at each call: one per task, and two at once here to check that. The
        processor may use the stores ``store_names``, added by :meth:`StreamsBuilder.add_state_store` or kept by a named
        table, and those that the supplier defines (:class:`ConnectedStoreProvider`). It may change keys: the stream is
        repartitioned before operators that depend on them. Serdes are not inherited.
        """
        checked_supplier(supplier)
        head = self._processed("process", supplier, store_names, named, "KSTREAM-PROCESSOR-", Process)
        changed = head.moved(head.node, key_serde=None, value_serde=None, repartition_required=True)
        return cast("KStream[KR, VR]", type(self)(changed))

    def process_values(
        self, supplier: FixedKeyProcessorSupplier[K, V, VR], *store_names: str, named: NameLike | None = None
    ) -> KStream[K, VR]:
        """Returns the records that a user's :class:`FixedKeyProcessor` forwards: their keys remain, so nothing is
        repartitioned. Mirrors ``processValues`` (KIP-820).

        ``supplier`` and ``store_names`` are as for :meth:`process`. The serde of the keys is inherited.
        """
        checked_fixed_key_supplier(supplier, "process_values")
        head = self._processed("process_values", supplier, store_names, named, "KSTREAM-PROCESSVALUES-", ProcessValues)
        return cast("KStream[K, VR]", type(self)(head.moved(head.node, value_serde=None)))

    def print(self, printed: Printed[K, V]) -> None:
        """Print every record, and end the stream. Mirrors ``print``.

        A line is ``[label]: key, value``, flushed at once; None is shown as ``null``. A record that is processed again
        is printed again.
        """
        if not isinstance(printed, Printed):
            raise TopologyError(f"print needs a Printed, such as Printed.to_sys_out(), not {shown_with_type(printed)}")
        head = self._head
        name = head.name(printed.name, "KSTREAM-PRINTER-")
        label = head.node.name if printed.label is None else printed.label
        head.then(name, Print(label, printed.path, printed.mapper))

    def _processed(
        self,
        call: str,
        supplier: Any,
        store_names: tuple[str, ...],
        named: NameLike | None,
        prefix: str,
        operator: Callable[[Any, tuple[str, ...]], Process],
    ) -> StreamHead:
        name = given_name(named) or self._head.graph.names.processor(prefix)
        for store in store_names:
            checked_name(store, f"{call}: store name")
        stores = stores_of(supplier, call)
        made = operator(supplier, tuple(dict.fromkeys((*store_names, *(store.name for store in stores)))))
        node = ProcessorOperation(name, lambda: made, lambda: stores)
        self._head.graph.add(node, self._head.node)
        return self._head.moved(node)
