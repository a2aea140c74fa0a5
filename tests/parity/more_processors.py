"""Processors that show what a context does: those of ``MoreProcessors.java``."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.common.records import Headers, Record
from penstock.topology.processor_api.fixed_key_processor import (
    FixedKeyProcessor,
    FixedKeyProcessorContext,
    FixedKeyRecord,
)
from penstock.topology.processor_api.processor import Cancellable, Processor, ProcessorContext, PunctuationType
from tests.parity.functions import split_name, text

Context = ProcessorContext[Any, Any]
AnyRecord = Record[Any, Any]
Step = Callable[[Context, AnyRecord, str, str], None]


class Stepping(Processor[Any, Any, Any, Any]):
    """Does one step with each record."""

    def __init__(self, step: Step, argument: str, store: str) -> None:
        self._step = step
        self._argument = argument
        self._store = store

    def init(self, context: Context) -> None:
        """Keep the context."""
        self._context = context

    def process(self, record: AnyRecord) -> None:
        """Do the step."""
        self._step(self._context, record, self._argument, self._store)


def _each_child(context: Context, record: AnyRecord, argument: str, store: str) -> None:
    for child in argument.split(","):
        context.forward(record.with_value(f"{text(record.value)}>{child}"), child)


def _mark(context: Context, record: AnyRecord, argument: str, store: str) -> None:
    headers = [*record.headers, (argument, b"x")]
    context.forward(record.with_headers(headers).with_timestamp(record.timestamp + 1))
    context.forward(record)


def _count(context: Context, record: AnyRecord, argument: str, store: str) -> None:
    counts = context.get_state_store(store)
    if record.key is not None:
        count = str(int(counts.get(record.key) or 0) + 1)
        counts.put(record.key, count)
        context.forward(record.with_value(count))


def _look(context: Context, record: AnyRecord, argument: str, store: str) -> None:
    found = None if record.key is None else context.get_state_store(store).get(record.key)
    context.forward(record.with_value(f"{text(record.value)}/{text(found)}"))


def _keep(context: Context, record: AnyRecord, argument: str, store: str) -> None:
    if record.key is not None:
        context.get_state_store(store).put(record.key, record.value)


def meta(context: Context, headers: Headers) -> str:
    """Returns what a context reports about itself, as text."""
    at = context.record_metadata()
    message = [
        "none" if at is None else f"{at.topic}-{at.partition}@{at.offset}",
        str(context.current_stream_time_ms()),
        str(context.current_system_time_ms()),
        *(name for name, _ in headers),
        str(context.task_id),
        context.application_id,
    ]
    return " ".join(message)


STEPS: dict[str, Step] = {
    "pass": lambda context, record, argument, store: context.forward(record),
    "to_child": lambda context, record, argument, store: context.forward(record, argument),
    "each_child": _each_child,
    "mark": _mark,
    "plain": lambda context, record, argument, store: context.forward(
        Record(record.key, record.value, record.timestamp)
    ),
    "meta": lambda context, record, argument, store: context.forward(record.with_value(meta(context, record.headers))),
    "count": _count,
    "look": _look,
    "keep": _keep,
}


class Ticks(Processor[Any, Any, Any, Any]):
    """Schedules as ``s10,w20@35,s5x3``: the clock, the interval, its start, after how many calls it is cancelled."""

    def __init__(self, schedules: str) -> None:
        self._schedules = schedules
        self._seen = 0

    def init(self, context: Context) -> None:
        """Set the clocks."""
        self._context = context
        for schedule in self._schedules.split(","):
            self._begin(schedule)

    def _begin(self, schedule: str) -> None:
        parts = re.fullmatch(r"([sw])(\d+)(?:@(\d+))?(?:x(\d+))?", schedule)
        assert parts is not None
        clock, interval, start, most = parts.groups()
        kind = PunctuationType.STREAM_TIME if clock == "s" else PunctuationType.WALL_CLOCK_TIME
        calls = 0
        begun: Cancellable

        def tick(now: int) -> None:
            nonlocal calls
            message = f"{now}:{self._seen}:{meta(self._context, [])}"
            self._context.forward(Record(schedule, message, now))
            calls += 1
            if most and calls >= int(most):
                begun.cancel()

        begun = self._context.schedule(int(interval), kind, tick, start_time=int(start) if start else None)

    def process(self, record: AnyRecord) -> None:
        """Count, and begin the schedule that the value names."""
        self._seen += 1
        if record.value is not None and record.value.startswith("begin "):
            self._begin(record.value.removeprefix("begin "))


class FixedKey(FixedKeyProcessor[Any, Any, Any]):
    """``twice``: forwards each record twice. ``last``: forwards it with the key's value before."""

    def __init__(self, function: str, store: str | None) -> None:
        self._store = store if function == "last" else None

    def init(self, context: FixedKeyProcessorContext[Any, Any]) -> None:
        """Open the store."""
        self._context = context
        self._last = self._store and context.get_state_store(self._store)

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        """Forward."""
        value = text(record.value)
        if not self._last:
            self._context.forward(record.with_value(f"{value}!").with_timestamp(record.timestamp + 1))
            self._context.forward(record)
        elif record.key is not None:
            self._context.forward(record.with_value(f"{text(self._last.get(record.key))}/{value}"))
            self._last.put(record.key, value)


def supplier(function: str, store: str) -> Callable[[], Processor[Any, Any, Any, Any]]:
    """The supplier that ``function`` names."""
    name, argument = split_name(function)
    return partial(Ticks, argument) if name == "ticks" else partial(Stepping, STEPS[name], argument, store)


def fixed_key_supplier(function: str, store: str | None) -> Callable[[], FixedKeyProcessor[Any, Any, Any]]:
    """The supplier of fixed-key processors that ``function`` names."""
    if function not in ("twice", "last"):
        raise ValueError(f"unknown processor {function!r}")
    return partial(FixedKey, function, store)
