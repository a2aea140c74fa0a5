"""Times as programs give them to stores."""

from __future__ import annotations

from penstock.common import time as times


def whole_ms(store: str, what: str, time: object) -> int:
    """``time`` as an int. Raises TypeError, which names ``store`` and ``what``, unless it is a whole number of ms."""
    return time if type(time) is int else times.whole_ms(time, f"store {store}: {what}")


def event_time(store: str, what: str, time: object) -> int:
    """``time`` as a record may have it. Raises TypeError like :func:`whole_ms`, and ValueError for a time that is
    negative or has more than Kafka's 63 bits."""
    return times.event_time(time, f"store {store}: {what}")
