"""Times as people write them, and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from penstock.common.windows import LARGEST_TIMESTAMP

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)

WRITTEN = "ms since 1970, or ISO 8601 with its offset from UTC"


def ms_of_text(text: str) -> int:
    """Reads a time written as ms since 1970, or in ISO 8601 with its offset from UTC. Raises ValueError with the
    expected form."""
    if text.isascii() and text.isdigit():
        if len(text) > len(str(LARGEST_TIMESTAMP)) or int(text) > LARGEST_TIMESTAMP:
            raise ValueError(f"At most {LARGEST_TIMESTAMP} ms")
        return int(text)
    try:
        time = datetime.fromisoformat(text)
        since = (time - _BEGINNING) // _MS if time.tzinfo is not None else -1
    except ValueError:
        since = -1
    if since < 0:
        what = "ms since 1970, or a time since then with its offset from UTC, such as 2026-01-31T12:00:00Z"
        raise ValueError(f"Input should be {what}")
    return since


@lru_cache(maxsize=10_000)
def iso_time(ms: int) -> str | None:
    """Returns ISO 8601 of a time in ms since 1970, in UTC; None for a time that has no such form, as the end of an
    unlimited window."""
    try:
        return (_BEGINNING + timedelta(milliseconds=ms)).strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03}Z"
    except OverflowError:
        return None
