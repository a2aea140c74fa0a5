"""Shows the bytes of records to people: decoded by a serde, or as text or bytes; bounded whatever they hold."""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from penstock.cluster.record_side import Form, Shown
from penstock.common.errors import RetriableError
from penstock.common.records import Header, Headers
from penstock.common.serdes import Serde

MOST_DECODED = 64 << 10
"""Bytes of the largest key or value that is decoded."""
DECODE_S = 2.0
"""Seconds for decoding all records of one answer."""
_MOST_RAW = 4 << 10
"""Bytes that are shown of a key or value that is not decoded."""
_MOST_OF_HEADER = 1 << 10
_MOST_HEADERS = 50
_LONGEST_NAME = 250
_LONGEST_PROBLEM = 400
_LATE = "the time for decoding is over"


class Clip(NamedTuple):
    """The beginning of a key or value, and its whole size in bytes. It is whole if ``size`` is that of ``data``."""

    data: bytes
    size: int

    @property
    def is_whole(self) -> bool:
        """True if nothing is cut off."""
        return len(self.data) == self.size


def clip(data: bytes | None, most: int = MOST_DECODED) -> Clip | None:
    """Returns the beginning of ``data``, so that the rest can be freed."""
    if data is None:
        return None
    return Clip(data if len(data) <= most else data[:most], len(data))


def clipped_headers(headers: Headers | None) -> list[tuple[str, Clip | None]]:
    """Returns the first headers, clipped."""
    return [(name[:_LONGEST_NAME], clip(data, _MOST_OF_HEADER)) for name, data in (headers or ())[:_MOST_HEADERS]]


class Decoder:
    """Shows keys and values by serdes, until ``until_s`` of ``clock``. After that, and after a serde has answered that
    it cannot decode now, it decodes nothing more: so a serde that waits for a registry holds up one answer once."""

    def __init__(self, until_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._until_s = until_s
        self._clock = clock
        self._over: str | None = None

    def show(self, serde: Serde[Any] | None, found: Clip | None, why_none: str | None = None) -> Shown | None:
        """Returns the form of a key or value; None for null. ``why_none``: the problem if there is no serde."""
        if found is None:
            return None
        if not found.is_whole:
            return raw(found, f"only keys and values of at most {MOST_DECODED:,} bytes are decoded")
        if serde is None:
            return raw(found, why_none)
        if self._over is None and self._clock() > self._until_s:
            self._over = _LATE
        if self._over is not None:
            return raw(found, self._over)
        try:
            return Shown(Form.DECODED, serde.deserialize(found.data), found.size)
        except RetriableError as error:
            self._over = _problem(serde, error)
            return raw(found, self._over)
        except Exception as error:  # a serde may raise anything: see Serde
            return raw(found, _problem(serde, error))


def _problem(serde: Serde[Any], error: Exception) -> str:
    try:
        text = f"serde {serde.name} cannot decode it: {type(error).__name__}: {error}"
    except Exception:  # the text of an error is made by the user's code, too
        text = f"serde {serde.name} cannot decode it: {type(error).__name__}"
    return text if len(text) <= _LONGEST_PROBLEM else f"{text[:_LONGEST_PROBLEM]}…"


def raw(found: Clip, problem: str | None = None) -> Shown:
    """Returns the beginning of ``found`` as text if it is UTF-8, otherwise as bytes."""
    data = found.data[:_MOST_RAW]
    clipped = len(data) < found.size
    try:
        # The last character may be cut: it is left out then.
        text = codecs.getincrementaldecoder("utf-8")().decode(data, final=not clipped)
    except UnicodeDecodeError:
        return Shown(Form.BYTES, data, found.size, clipped, problem)
    return Shown(Form.TEXT, text, found.size, clipped, problem)


def shown_headers(headers: Sequence[tuple[str, Clip | None]]) -> tuple[tuple[str, Shown | None], ...]:
    """Returns headers as text or bytes."""
    return tuple((name, None if data is None else raw(data)) for name, data in headers)


def size_of_record(key: bytes | None, value: bytes | None, headers: Sequence[Header] | None) -> int:
    """Returns the bytes of a record's key, value and headers."""
    of_headers = sum(len(name) + len(data or b"") for name, data in headers or ())
    return len(key or b"") + len(value or b"") + of_headers
