"""The processors that parity cases name; those that show what a context does are in ``more_processors``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.common.records import Record
from penstock.state.views import KeyValueStore
from penstock.topology.processor_api.processor import Processor, ProcessorContext, PunctuationType
from tests.parity import more_processors
from tests.parity.functions import split_name, text


class Dedupe(Processor[Any, Any, Any, Any]):
    """Forwards a record when its value is not the last one of its key."""

    def __init__(self, store_name: str) -> None:
        self._store_name = store_name

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        """Open the store."""
        self._context = context
        self._store: KeyValueStore[Any, str] = context.get_state_store(self._store_name)

    def process(self, record: Record[Any, Any]) -> None:
        """Forward what is new."""
        if record.key is None or self._store.get(record.key) == text(record.value):
            return
        self._store.put(record.key, text(record.value))
        self._context.forward(record)


class Tick(Processor[Any, Any, Any, Any]):
    """Counts records; each punctuation forwards the time and the count."""

    def __init__(self, interval_ms: int, clock: PunctuationType) -> None:
        self._interval_ms = interval_ms
        self._clock = clock
        self._seen = 0

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        """Set the clock."""
        self._context = context
        context.schedule(self._interval_ms, self._clock, self._tick)

    def process(self, record: Record[Any, Any]) -> None:
        """Count."""
        self._seen += 1

    def _tick(self, at_ms: int) -> None:
        self._context.forward(Record("tick", f"{at_ms}:{self._seen}", at_ms))


def supplier(function: str, store: str) -> Callable[[], Processor[Any, Any, Any, Any]]:
    """The supplier that ``function`` names."""
    name, argument = split_name(function)
    if name == "dedupe":
        return partial(Dedupe, store)
    if name == "tick_stream":
        return partial(Tick, int(argument), PunctuationType.STREAM_TIME)
    if name == "tick_wall":
        return partial(Tick, int(argument), PunctuationType.WALL_CLOCK_TIME)
    return more_processors.supplier(function, store)
