"""Features of cases that Kafka Streams lacks: the step ``deduplicate``, and rows that expire (``ttl_ms``).

The third is an entry of a case's configuration, ``window.idle.advance.ms``. Cases with any of these are compared with a
model (``fuzz/model.py``) instead of Kafka Streams; its player refuses them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.common.records import Record
from penstock.common.serdes import Serdes
from penstock.state.stores import Stores
from penstock.state.views import ValueAndTimestamp
from penstock.topology.options.deduplicated import Deduplicated
from penstock.topology.options.materialized import StoreType
from penstock.topology.processor_api.processor import Processor, ProcessorContext
from tests.parity import functions

if TYPE_CHECKING:
    from penstock.topology.dsl.streams_builder import StreamsBuilder
    from tests.parity.build import Step, _Result

Case = dict[str, Any]

IDLE = "window.idle.advance.ms"


def asks_for_own(case: Case) -> bool:
    """Returns True if the case has something that Kafka Streams lacks."""
    return IDLE in case["config"] or any(step["op"] == "deduplicate" or "ttl_ms" in step for step in case["topology"])


class Alive(Processor[Any, Any, Any, Any]):
    """``alive``: keeps each value for the time to live, and forwards the keys that there are, in their order."""

    def __init__(self, store: str) -> None:
        self._name = store

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        """Open the store."""
        self._context = context
        self._store = context.get_state_store(self._name)

    def process(self, record: Record[Any, Any]) -> None:
        """Put the value at the record's time; null deletes."""
        if record.key is None:
            return
        value = None if record.value is None else ValueAndTimestamp(functions.text(record.value), record.timestamp)
        self._store.put(record.key, value)
        self._context.forward(record.with_value(",".join(key for key, _ in self._store.all())))


class OwnSteps:
    """The steps of ``_Steps`` that Kafka Streams lacks."""

    builder: StreamsBuilder

    def _deduplicate(self, step: Step, source: _Result) -> _Result:
        from tests.parity.build import SERDES, _kstream, _Result

        how: Deduplicated[Any, Any, Any] = Deduplicated.with_(SERDES[source.key], SERDES[source.value])
        how = how.with_id_serde(SERDES["string"]) if "fn" in step else how
        how = how.with_store_name(step["store"]) if "store" in step else how
        how = how.with_name(step["name"]) if "name" in step else how
        how = how.with_retention(step["retention_ms"]) if "retention_ms" in step else how
        how = how.with_store_type(StoreType.IN_MEMORY) if step.get("in_memory", False) else how
        how = how if step.get("logging", True) else how.with_logging_disabled()
        stream, within = _kstream(source), step["within_ms"]
        if "fn" not in step:
            return _Result(stream.deduplicate(within, deduplicated=how), source.key, source.value)
        fn = step["fn"]
        once = stream.deduplicate(within, lambda key, value: functions.key_of(fn, key, value), how)
        return _Result(once, source.key, source.value)

    def _expiring_processor(self, step: Step) -> tuple[Callable[[], Processor[Any, Any, Any, Any]], list[str]]:
        if step["fn"] != "alive":
            raise ValueError(f"no processor {step['fn']!r} has a store whose rows expire")
        name = step["store"]
        in_memory = step.get("in_memory", False)
        supplier = Stores.in_memory_key_value_store(name) if in_memory else Stores.persistent_key_value_store(name)
        strings = Serdes.string()
        kept = Stores.timestamped_key_value_store_builder(supplier, strings, strings)
        self.builder.add_state_store(kept.with_ttl(step["ttl_ms"]))
        return partial(Alive, name), [name]
