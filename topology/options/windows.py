"""Windows of time, into which ``windowed_by`` cuts event time, and the moment when their results are emitted.

Sizes, grace periods and times are in ms since 1970, or durations in ms; windows of fixed size are aligned to 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

from typing_extensions import override

from penstock.common.errors import TopologyError
from penstock.common.shown import shown_with_type
from penstock.common.time import Duration, to_ms
from penstock.common.windows import LARGEST_TIMESTAMP, Window, time_window


class Windows(ABC):
    """Windows whose bounds do not depend on records. Mirrors ``Windows``.

    ``size_ms``: time from a window's start to its end. ``grace_period_ms``: time after its end, in the stream time that
    the operator has observed, for which a window still takes records.
    """

    size_ms: int
    grace_period_ms: int

    @abstractmethod
    def windows_for(self, timestamp: int) -> dict[int, Window]:
        """Returns the windows that a record of ``timestamp`` belongs to, by start, oldest first."""


@dataclass(frozen=True)
class TimeWindows(Windows):
    """Windows of a fixed size, tumbling or hopping. Mirrors ``TimeWindows``.

    A window is ``[start, end)``: its end belongs to the next one. Starts are the multiples of ``advance_ms`` from 0 on.
    *Tumbling* windows, which do not overlap, advance by their size; *hopping* ones by less, so that a record belongs to
    several. A record that comes after a window's end and grace period is dropped for it, and counted in
    ``dropped-records-total``.
    """

    size_ms: int
    advance_ms: int
    grace_period_ms: int

    def __post_init__(self) -> None:
        if self.size_ms <= 0:
            raise TopologyError(f"TimeWindows: the size must be larger than 0, not {self.size_ms} ms")
        if not 0 < self.advance_ms <= self.size_ms:
            raise TopologyError(
                f"TimeWindows: windows of {self.size_ms} ms can advance by 1 to {self.size_ms} ms, not by "
                f"{self.advance_ms} ms: what lies between two windows would be lost"
            )

    @staticmethod
    def of_size_with_no_grace(size: Duration) -> TimeWindows:
        """Returns tumbling windows of ``size`` that take no record after their end. Mirrors ``ofSizeWithNoGrace``.

        Stream time is the largest timestamp that has come: without a grace period, one record of the next window closes
        this one for all later records. Raises TopologyError for a size of 0.
        """
        return TimeWindows.of_size_and_grace(size, 0)

    @staticmethod
    def of_size_and_grace(size: Duration, after_window_end: Duration) -> TimeWindows:
        """Returns tumbling windows of ``size`` that take records for ``after_window_end`` after their end.

        Raises TopologyError for a size of 0, ValueError for a negative duration. Mirrors ``ofSizeAndGrace``.

        >>> import penstock as ps
        >>> from datetime import timedelta
        >>> ps.TimeWindows.of_size_and_grace(timedelta(minutes=1), timedelta(seconds=5))
        TimeWindows(size_ms=60000, advance_ms=60000, grace_period_ms=5000)
        """
        size_ms = to_ms(size, "TimeWindows: size")
        return TimeWindows(size_ms, size_ms, to_ms(after_window_end, "TimeWindows: the grace period after_window_end"))

    def advance_by(self, advance: Duration) -> TimeWindows:
        """Returns a copy with hopping windows: one begins every ``advance``. Mirrors ``advanceBy``.

        Raises TopologyError unless it is more than 0 and no more than the size.

        >>> import penstock as ps
        >>> list(ps.TimeWindows.of_size_with_no_grace(10).advance_by(5).windows_for(12))
        [5, 10]
        """
        return replace(self, advance_ms=to_ms(advance, "TimeWindows: advance"))

    @override
    def windows_for(self, timestamp: int) -> dict[int, Window]:
        advance = self.advance_ms
        first = max(0, timestamp - self.size_ms + advance) // advance * advance
        return {start: time_window(start, self.size_ms) for start in range(first, timestamp + 1, advance)}


@dataclass(frozen=True)
class UnlimitedWindows(Windows):
    """One window for all time from ``start_ms`` on, without an end. Mirrors ``UnlimitedWindows``.

    Records before it belong to no window: they are left out, and not counted as dropped.
    """

    start_ms: int = 0
    size_ms: int = field(default=LARGEST_TIMESTAMP, init=False)
    grace_period_ms: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        start: object = self.start_ms
        if type(start) is not int or start < 0:
            raise TopologyError(
                f"UnlimitedWindows: start must be whole ms since 1970, from 0 on, not {shown_with_type(start)}: of a "
                "datetime that is int(when.timestamp() * 1000)"
            )

    @staticmethod
    def of() -> UnlimitedWindows:
        """Returns a window for all time from 1970 on."""
        return UnlimitedWindows()

    def start_on(self, start_ms: int) -> UnlimitedWindows:
        """Returns a window from ``start_ms`` (ms since 1970) on. Raises TopologyError for a negative one."""
        return replace(self, start_ms=start_ms)

    @override
    def windows_for(self, timestamp: int) -> dict[int, Window]:
        return {self.start_ms: Window(self.start_ms, LARGEST_TIMESTAMP)} if timestamp >= self.start_ms else {}


@dataclass(frozen=True)
class SlidingWindows:
    """Windows that records open: at most one that ends at the record's time, and one that begins after it. Mirrors
    ``SlidingWindows``.

    A window holds the records of one key that are at most ``time_difference_ms`` apart, and both of its ends belong to
    it: ``[timestamp - time_difference_ms, timestamp]``. There is one window for each such set of records. So the
    results are those of a window that slides over time, for the cost of two windows per timestamp of a key. Records
    from before ``time_difference_ms`` after 1970 share the window ``[0, time_difference_ms]``. A record that comes
    later than the grace period allows is dropped and counted, and so is one with a null key or a null value.
    """

    time_difference_ms: int
    grace_period_ms: int

    @staticmethod
    def of_time_difference_with_no_grace(time_difference: Duration) -> SlidingWindows:
        """Returns windows of records at most ``time_difference`` apart, which take no record after their end."""
        return SlidingWindows.of_time_difference_and_grace(time_difference, 0)

    @staticmethod
    def of_time_difference_and_grace(time_difference: Duration, after_window_end: Duration) -> SlidingWindows:
        """Returns windows of records at most ``time_difference`` apart, which take records for ``after_window_end``
        after their end. Raises ValueError for a negative duration. Mirrors ``ofTimeDifferenceAndGrace``.

        >>> import penstock as ps
        >>> ps.SlidingWindows.of_time_difference_and_grace(1000, 500)
        SlidingWindows(time_difference_ms=1000, grace_period_ms=500)
        """
        return SlidingWindows(
            to_ms(time_difference, "SlidingWindows: time_difference"),
            to_ms(after_window_end, "SlidingWindows: the grace period after_window_end"),
        )


@dataclass(frozen=True)
class EmitStrategy:
    """The moment at which the results of a windowed aggregate go downstream. Mirrors ``EmitStrategy``."""

    on_close: bool

    @staticmethod
    def on_window_update() -> EmitStrategy:
        """Emit each update of a window, or with caching the last one of each window and commit: the default."""
        return EmitStrategy(False)

    @staticmethod
    def on_window_close() -> EmitStrategy:
        """Emit one result for each window, once it takes no more records: when the stream time that the operator has
        observed has passed its end by the grace period. Mirrors ``onWindowClose``.

        Unless ``window.idle.advance.ms`` is set, only records close windows, and not the clock: without new records in
        its partition the result of a window is not emitted. The operator looks for closed windows at most once a
        second, so several results may come at once; they are in the order of time, and have the headers of the record
        that closed the windows. The time of the last result is committed with the offsets, so each result comes once,
        also over a restart (except those of records that are processed again after a crash). In time windows and
        sliding windows the result has the timestamp of the aggregate.
        """
        return EmitStrategy(True)


def checked_emit_strategy(given: Any, windows: object) -> EmitStrategy:
    """Returns ``given``, if it is an emit strategy and ``windows`` ever close. Raises TopologyError otherwise."""
    if not isinstance(given, EmitStrategy):
        raise TopologyError(
            f"emit_strategy needs an EmitStrategy, such as EmitStrategy.on_window_close(), not {shown_with_type(given)}"
        )
    if given.on_close and isinstance(windows, UnlimitedWindows):
        raise TopologyError("EmitStrategy.on_window_close: UnlimitedWindows never close")
    return given


def checked_windows(given: object) -> None:
    """Raises TopologyError unless ``given`` are windows of time."""
    if not isinstance(given, TimeWindows | UnlimitedWindows | SlidingWindows):
        raise TopologyError(
            f"windowed_by needs windows, such as TimeWindows.of_size_and_grace(...), not {shown_with_type(given)}"
        )
