"""Times as people write them, and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import lru_cache

from penstock.common.windows import LARGEST_TIMESTAMP

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)

WRITTEN = "ms since 1970, or ISO 8601 with its offset from UTC"


class WithoutZone(Enum):
    """The meaning of a time that names no zone. HTTP and queries refuse it; the two others are Kafka's own tools'."""

    REFUSED = "an error"
    UTC = "a time in UTC"
    LOCAL = "a time of this machine's zone"


def ms_of_iso(text: str, without_zone: WithoutZone) -> int:
    """Reads a time in ISO 8601 as ms since 1970, rounded down; negative before 1970. Raises ValueError."""
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        match without_zone:
            case WithoutZone.REFUSED:
                raise ValueError("the time names no zone")
            case WithoutZone.UTC:
                time = time.replace(tzinfo=UTC)
            case WithoutZone.LOCAL:
                try:
                    time = time.astimezone()
                except OverflowError as error:
                    raise ValueError("the time is out of range") from error
    return (time - _BEGINNING) // _MS


def ms_of_text(text: str) -> int:
    """Reads a time written as ms since 1970, or in ISO 8601 with its offset from UTC. Raises ValueError with the
    expected form."""
    if text.isascii() and text.isdigit():
        if len(text) > len(str(LARGEST_TIMESTAMP)) or int(text) > LARGEST_TIMESTAMP:
            raise ValueError(f"At most {LARGEST_TIMESTAMP} ms")
        return int(text)
    try:
        since = ms_of_iso(text, WithoutZone.REFUSED)
    except ValueError:
        since = -1
    if since < 0:
        what = "ms since 1970, or a time since then with its offset from UTC, such as 2026-01-31T12:00:00Z"
        raise ValueError(f"Input should be {what}")
    return since


def moment(ms: int) -> str:
    """Returns a time as text with its zone: in UTC, and in this machine's zone if that is another.

    At both ends of the calendar some zones have no such time: then in UTC alone.
    """
    utc = iso_time(ms)
    if utc is None:
        return f"{ms} ms since 1970"
    try:
        here = datetime.fromtimestamp(ms // 1000).astimezone()
    except (ValueError, OverflowError, OSError):
        return utc
    return f"{utc} (here {here.isoformat(timespec='seconds')})" if here.utcoffset() else utc


@lru_cache(maxsize=10_000)
def iso_time(ms: int) -> str | None:
    """Returns ISO 8601 of a time in ms since 1970, in UTC; None for a time that has no such form, as the end of an
    unlimited window."""
    try:
        return (_BEGINNING + timedelta(milliseconds=ms)).strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03}Z"
    except OverflowError:
        return None
