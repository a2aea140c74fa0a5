"""A processor that is watched: its records, and what it exchanges with its stores and its context."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol

from penstock.common.errors import TopologyError
from penstock.common.records import Record
from penstock.common.time import Duration
from penstock.testing.tracked_views import tracked_view
from penstock.topology.arity import checked_function
from penstock.topology.processor_api.fixed_key_processor import FixedKeyProcessor, FixedKeyRecord
from penstock.topology.processor_api.processor import Cancellable, Processor, PunctuationType, Punctuator


class Tracking(Protocol):
    """Takes note of objects, and looks at them again when the call is done."""

    def add(self, what: str, value: Any) -> None:
        """Take note of ``value``, which must stay as it is."""

    def compare(self) -> None:
        """Raises RuleBrokenError if an object has changed."""


def tracked_processor(inner: Any, tracking: Callable[[str], Tracking]) -> Any:
    """``inner``, a processor of either class, watched call by call."""
    if isinstance(inner, FixedKeyProcessor):
        return TrackedFixedKeyProcessor(inner, tracking)
    if isinstance(inner, Processor):
        return TrackedProcessor(inner, tracking)
    raise TopologyError(f"the supplier of a processor returned {inner!r}, not a Processor")


class _Tracked:
    """The common part of the watched processors of both classes."""

    def __init__(self, inner: Any, tracking: Callable[[str], Tracking]) -> None:
        self._inner = inner
        self._tracking = tracking
        self._tracker = tracking("")

    def init(self, context: Any) -> None:
        # The processor sees a context whose stores take note.
        self._call("init", self._inner.init, _TrackedContext(context, self))

    def process(self, record: Any) -> None:
        self._call("process", self._inner.process, record)

    def close(self) -> None:
        self._inner.close()

    def note(self, what: str, value: Any) -> None:
        """``value`` was exchanged within the call that runs."""
        self._tracker.add(what, value)

    def tracked_punctuator(self, punctuator: Punctuator) -> Punctuator:
        """``punctuator``, watched."""
        return lambda now_ms: self._call("a punctuator", punctuator, now_ms)

    def _call(self, name: str, function: Callable[[Any], object], given: Any) -> None:
        outer, self._tracker = self._tracker, self._tracking(f"{type(self._inner).__qualname__}, {name},")
        if isinstance(given, Record | FixedKeyRecord):
            self._tracker.add("the record's key", given.key)
            self._tracker.add("the record's value", given.value)
        try:
            function(given)
        finally:
            tracker, self._tracker = self._tracker, outer
            tracker.compare()


class TrackedProcessor(_Tracked, Processor[Any, Any, Any, Any]):
    """A :class:`Processor`, watched."""


class TrackedFixedKeyProcessor(_Tracked, FixedKeyProcessor[Any, Any, Any]):
    """A :class:`FixedKeyProcessor`, watched."""


class _TrackedContext:
    """A context that takes note of what is forwarded, and whose stores do of theirs."""

    def __init__(self, context: Any, processor: _Tracked) -> None:
        self._context = context
        self._processor = processor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def forward(self, record: Any, child: str | None = None) -> None:
        self._processor.note("the value of a record that it forwarded", getattr(record, "value", None))
        self._context.forward(record, child)

    def schedule(
        self,
        interval: Duration,
        type: PunctuationType,
        punctuator: Punctuator,
        *,
        start_time: datetime | int | None = None,
    ) -> Cancellable:
        checked_function(punctuator, "schedule: punctuator", "now_ms")
        tracked = self._processor.tracked_punctuator(punctuator)
        cancellable: Cancellable = self._context.schedule(interval, type, tracked, start_time=start_time)
        return cancellable

    def get_state_store(self, name: str) -> Any:
        return tracked_view(self._context.get_state_store(name), self._processor.note)
