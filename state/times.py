"""Times as programs give them to stores."""

from __future__ import annotations

from datetime import date, timedelta
from operator import index


def whole_ms(store: str, what: str, time: object) -> int:
    """``time`` as an int. Raises TypeError, which names ``store`` and ``what``, unless it is a whole number of ms."""
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
    raise TypeError(
        f"store {store}: {what} must be whole milliseconds since 1970, an int, not {time!r} "
        f"({type(time).__name__}){hint}"
    )
