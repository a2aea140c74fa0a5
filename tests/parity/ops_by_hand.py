"""The steps that add nodes to a topology by hand, after those of the DSL; ``process_values`` and ``print``."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.common.serdes import Serdes
from penstock.state.builders import StoreBuilder
from penstock.state.stores import Stores
from penstock.topology.dsl.topology import Topology
from penstock.topology.options.printed import Printed
from tests.parity import more_processors, processors

if TYPE_CHECKING:
    from penstock.topology.dsl.streams_builder import StreamsBuilder
    from tests.parity.build import Step, _Result


OPS = {
    "add_source", "add_processor", "add_sink", "add_state_store", "connect", "add_global_store",
    "add_read_only_state_store",
}  # fmt: skip


class ByHandSteps:
    """The steps of ``_Steps`` that add nodes by hand, ``process_values`` and ``print``."""

    builder: StreamsBuilder
    sinks: list[tuple[str, str, str]]
    stores: list[str]

    def add_by_hand(self, topology: Topology, steps: list[Step]) -> Topology:
        """Adds the nodes of those ``steps`` that add them by hand to ``topology``, and returns it."""
        for step in steps:
            if step["op"] in OPS:
                self._add(topology, step)
        return topology

    def _add(self, topology: Topology, step: Step) -> None:
        from tests.parity.build import SERDES

        serdes: dict[str, Any] = {
            "key_serde": SERDES[step.get("key", "string")],
            "value_serde": SERDES[step.get("value", "string")],
        }
        match step["op"]:
            case "add_source":
                topology.add_source(step["name"], *step["topics"], **serdes)
            case "add_processor":
                topology.add_processor(step["name"], self._supplier_of(step), *step.get("parents", []))
            case "add_sink":
                topology.add_sink(step["name"], step["topic"], *step.get("parents", []), **serdes)
                self.sinks.append((step["topic"], step.get("key", "string"), step.get("value", "string")))
            case "add_state_store":
                self.stores.append(step["store"])
                topology.add_state_store(_store(step["store"]), *step.get("processors", []))
            case "connect":
                topology.connect_processor_and_state_stores(step["processor"], *step.get("stores", []))
            case op:
                self.stores.append(step["store"])
                add = topology.add_global_store if op == "add_global_store" else topology.add_read_only_state_store
                keeper = more_processors.supplier("keep", step["store"])
                add(_store(step["store"]), step["source"], step["topic"], step["processor"], keeper, **serdes)

    def _supplier_of(self, step: Step) -> Callable[[], Any]:
        builders = [_store(name) for name in step.get("brings", [])]
        self.stores += [builder.name for builder in builders]
        plain = processors.supplier(step["fn"], step.get("store", ""))
        return _Bringing(plain, builders) if builders else plain

    def _process_values(self, step: Step, source: _Result) -> _Result:
        from tests.parity.build import _kstream, _Result

        stores = [step["store"]] if "store" in step else []
        for store in stores:
            self.builder.add_state_store(_store(store))
        supplier = more_processors.fixed_key_supplier(step["fn"], step.get("store"))
        stream = _kstream(source).process_values(supplier, *stores, named=step.get("named"))
        return _Result(stream, source.key, step.get("value", source.value))

    def _print(self, step: Step, source: _Result) -> None:
        from tests.parity.build import _kstream

        # Standard output has the player's answers; only the node is of interest.
        printed = Printed.to_file(os.devnull)
        _kstream(source).print(printed.with_name(step["named"]) if "named" in step else printed)


class _Bringing:
    """A supplier with stores."""

    def __init__(self, make: Callable[[], Any], builders: list[StoreBuilder[str, str]]) -> None:
        self._make = make
        self._builders = builders

    def __call__(self) -> Any:
        return self._make()

    def stores(self) -> list[StoreBuilder[str, str]]:
        """Returns the stores that the supplier brings along."""
        return self._builders


def _store(name: str) -> StoreBuilder[str, str]:
    return Stores.key_value_store_builder(Stores.in_memory_key_value_store(name), Serdes.string(), Serdes.string())
