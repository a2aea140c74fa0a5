"""Joins of a stream with a global table, and the processor that keeps a global store."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NoReturn

from typing_extensions import override

from penstock.common.errors import SerializationError, TopologyError
from penstock.common.records import Record
from penstock.common.serdes import why_refused
from penstock.common.time import Duration
from penstock.tasks.closures import closure_of
from penstock.tasks.operators.process import TaskProcessorContext, host_processor
from penstock.tasks.punctuation import Schedule
from penstock.tasks.wiring import Store, StreamEdge, Wiring
from penstock.topology.physical.operators.global_tables import GlobalProcess, StreamGlobalTableJoin
from penstock.topology.processor_api.processor import PunctuationType, Punctuator


@closure_of(StreamGlobalTableJoin)
def _stream_global_table_join(spec: StreamGlobalTableJoin, wiring: Wiring) -> StreamEdge:
    """Only stream records trigger the join; the table's value is the current one, the timestamp is the stream's."""
    forward, context, name = wiring.forward, wiring.context, wiring.name
    store = wiring.global_stores[spec.global_store]
    failed = wiring.failed
    selector, by_key = spec.key_selector.selector, spec.key_selector.with_key
    joiner, with_key, left = spec.joiner, spec.with_key, spec.left
    key_bytes = store.key_serde.serialize
    dirty_get, clean_get, load = store.buffer.dirty.get, store.buffer.clean.get, store.buffer.load

    def run(key: Any, value: Any, timestamp: int) -> None:
        if value is None:
            context.dropped_records += 1
            return
        try:
            selected = selector(key, value) if by_key else selector(value)
            if selected is None:
                if not left:
                    context.dropped_records += 1
                    return
                other = None
            else:
                try:
                    row = key_bytes(selected)
                except Exception as refused:
                    raise _misfit(store, selected, refused) from refused
                other = (dirty_get(row) or clean_get(row) or load(row))[0]
                if other is None and not left:
                    return
            joined = joiner(key, value, other) if with_key else joiner(value, other)
        except Exception as error:
            failed(error, name, key, value, timestamp)
            return
        forward(key, joined, timestamp)

    return run


def _misfit(store: Store, selected: Any, refused: Exception) -> SerializationError:
    why = why_refused(store.key_serde, selected, refused)
    return SerializationError(
        f"global store {store.builder.name}: {why}. The key_selector must return keys of the global table"
    )


@closure_of(GlobalProcess)
def _global_process(spec: GlobalProcess, wiring: Wiring) -> StreamEdge:
    return host_processor(spec, wiring, GlobalProcessorContext)


class GlobalProcessorContext(TaskProcessorContext):
    """The context of the processor of a global store: it has neither children nor a stream time."""

    @override
    def forward(self, record: Record[Any, Any], child: str | None = None) -> NoReturn:
        raise self._refused("forward", "nothing is downstream of a global store")

    @override
    def schedule(
        self,
        interval: Duration,
        type: PunctuationType,
        punctuator: Punctuator,
        *,
        start_time: datetime | int | None = None,
    ) -> Schedule:
        raise self._refused("schedule", "a global store has no punctuations")

    @override
    def current_stream_time_ms(self) -> int:
        raise self._refused("current_stream_time_ms", "a global store has no stream time")

    @override
    def commit(self) -> None:
        """Does nothing: a global store is committed by the clock alone, as in Kafka Streams."""

    def _refused(self, call: str, why: str) -> TopologyError:
        return TopologyError(f"the processor {self.name} of a global store called {call}: {why}")
