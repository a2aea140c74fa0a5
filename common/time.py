"""Durations and instants: users give ``timedelta``, ``datetime`` or whole ms; internally all are ms."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from operator import index

from penstock.common.windows import LARGEST_TIMESTAMP

Duration = timedelta | int
Instant = datetime | int
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_ms(duration: Duration, what: str) -> int:
    """``duration`` in whole ms; ``what`` names it in an error.

    Raises ValueError when it is negative, has a fraction of a ms, or is more than Kafka's 63 bits; TypeError when it is
    neither form.
    """
    fraction = timedelta()
    if isinstance(duration, timedelta):
        duration, fraction = divmod(duration, timedelta(milliseconds=1))
    elif isinstance(duration, bool) or not isinstance(duration, int):
        raise TypeError(f"{what} must be a timedelta or whole milliseconds, not {duration!r}")
    if duration < 0:
        raise ValueError(f"{what} may not be negative: {duration} ms")
    if fraction:
        raise ValueError(f"{what} has a fraction of a millisecond ({fraction.microseconds} µs): give whole ones")
    _check_size(duration, what)
    return duration


def to_epoch_ms(instant: Instant, what: str) -> int:
    """``instant`` in whole ms since the epoch, rounded down; ``what`` names it in an error.

    Raises TypeError when it is neither whole ms nor a datetime with a time zone, ValueError for more than 63 bits.
    """
    if isinstance(instant, datetime):
        if instant.utcoffset() is None:
            raise TypeError(f"{what} has no time zone: {instant!r}. Give one, as tzinfo=datetime.UTC")
        return (instant - _EPOCH) // timedelta(milliseconds=1)
    if isinstance(instant, bool) or not isinstance(instant, int):
        raise TypeError(f"{what} must be a datetime or whole milliseconds, not {instant!r}")
    _check_size(instant, what)
    return instant


def whole_ms(time: object, what: str) -> int:
    """``time`` as an int: an int, or another whole number such as numpy's. ``what`` names it in an error.

    Raises TypeError for anything else: a bool, a float, a string, a datetime or a timedelta.
    """
    if type(time) is int:
        return time
    if not isinstance(time, bool):
        try:
            return index(time)  # type: ignore[arg-type]  # numpy's integers
        except TypeError:
            pass
    hint = ""
    if isinstance(time, date):
        hint = ": write int(when.timestamp() * 1000)"
    elif isinstance(time, timedelta):
        hint = ": write span // timedelta(milliseconds=1)"
    raise TypeError(f"{what} must be whole milliseconds since 1970, an int, not {time!r} ({type(time).__name__}){hint}")


def event_time(time: object, what: str) -> int:
    """``time`` as a record may have it: whole ms since the epoch, from 0 to Kafka's 63 bits.

    Raises TypeError as :func:`whole_ms`, and ValueError for a time that is negative or too large.
    """
    checked = whole_ms(time, what)
    if checked < 0:
        raise ValueError(f"{what} may not be negative: {checked} ms")
    _check_size(checked, what)
    return checked


def _check_size(ms: int, what: str) -> None:
    if ms > LARGEST_TIMESTAMP:
        raise ValueError(f"{what} is too large: {ms} ms. Kafka's times have 63 bits")
