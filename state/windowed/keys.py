"""The bytes of windowed keys, as they are in changelogs and, after a segment's number, in rows.

Kafka Streams' own (``WindowKeySchema``, ``SessionKeySchema``), so that its changelogs can be read and written::

    window store    key, 8 bytes of window start, 4 bytes of sequence number
    session store   key, 8 bytes of window end, 8 bytes of window start

All numbers are signed and big-endian; none is negative, so bytes sort as the numbers do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from operator import itemgetter
from struct import Struct
from typing import ClassVar

from typing_extensions import override

from penstock.common.windows import Window, time_window
from penstock.state.windowed.segments import SEGMENT_BYTES

LARGEST_SEQUENCE = 0x7FFFFFFF
"""The largest sequence number; 0 follows it."""

_start = Struct(">q")
_time_and_sequence = Struct(">qi")
_SEQUENCE_BYTES = 4
_end_and_start = Struct(">qq")

start_and_sequence = _time_and_sequence.pack
"""Packs the bytes after the key of a window."""
end_and_start = _end_and_start.pack
"""Packs the bytes after the key of a session."""


def _session_end(key: bytes) -> int:
    """The end of the session in a changelog key or a row key."""
    end: int = _end_and_start.unpack_from(key, len(key) - _end_and_start.size)[0]
    return end


try:
    from penstock.state.windowed.session_lists import session_end as session_end
except ImportError:  # it could not be compiled here
    session_end = _session_end


class KeySchema(ABC):
    """The form of one kind of windowed key: bytes after those of the key itself.

    ``time`` decides a row's segment, its order within a key and its expiry: it is the window's start, or its end if
    windows are sessions.
    """

    suffix_bytes: ClassVar[int]
    windows_recur: ClassVar[bool]
    """True if many keys have the same windows."""

    @abstractmethod
    def time(self, key: bytes) -> int:
        """The time in a changelog key or a row key: both end alike."""

    @abstractmethod
    def window(self, key: bytes) -> Window:
        """The window in a changelog key or a row key."""

    @abstractmethod
    def end(self, key: bytes) -> int:
        """The end of the window in a changelog key or a row key."""

    @abstractmethod
    def topic_key(self, row_key: bytes, /) -> bytes:
        """The windowed key in a row's key as serdes of windowed keys write it to topics."""

    @abstractmethod
    def topic_suffix(self, window: Window) -> bytes:
        """Returns the bytes that serdes of windowed keys write after the key."""

    @abstractmethod
    def sequence(self, key: bytes) -> int:
        """The sequence number in a changelog key or a row key; 0 if there is none."""

    @abstractmethod
    def first(self, time: int) -> bytes:
        """The smallest suffix of that time."""

    @abstractmethod
    def last(self, time: int) -> bytes:
        """The largest suffix of that time."""


@dataclass(frozen=True)
class WindowKeySchema(KeySchema):
    """Keys of a window store; ``window_size_ms`` gives windows their end, which is not in the bytes."""

    window_size_ms: int
    suffix_bytes: ClassVar[int] = _time_and_sequence.size
    windows_recur: ClassVar[bool] = True

    def suffix(self, start: int, sequence: int) -> bytes:
        """Returns the bytes after the key."""
        return _time_and_sequence.pack(start, sequence)

    @override
    def time(self, key: bytes) -> int:
        start: int = _time_and_sequence.unpack_from(key, len(key) - self.suffix_bytes)[0]
        return start

    @override
    def window(self, key: bytes) -> Window:
        return time_window(self.time(key), self.window_size_ms)

    @override
    def end(self, key: bytes) -> int:
        return self.window(key).end

    @override
    def topic_key(self, row_key: bytes, /) -> bytes:
        return row_key[SEGMENT_BYTES:-_SEQUENCE_BYTES]

    @override
    def topic_suffix(self, window: Window) -> bytes:
        return _start.pack(window.start)

    @override
    def sequence(self, key: bytes) -> int:
        sequence: int = _time_and_sequence.unpack_from(key, len(key) - self.suffix_bytes)[1]
        return sequence

    @override
    def first(self, time: int) -> bytes:
        return _time_and_sequence.pack(time, 0)

    @override
    def last(self, time: int) -> bytes:
        return _time_and_sequence.pack(time, LARGEST_SEQUENCE)


@dataclass(frozen=True)
class SessionKeySchema(KeySchema):
    """Keys of a session store."""

    suffix_bytes: ClassVar[int] = _end_and_start.size
    windows_recur: ClassVar[bool] = False

    def suffix(self, window: Window) -> bytes:
        """Returns the bytes after the key."""
        return _end_and_start.pack(window.end, window.start)

    # A flush calls these for each session: in this form they save it a call each.
    time = end = staticmethod(session_end)
    topic_key = staticmethod(itemgetter(slice(SEGMENT_BYTES, None)))

    @override
    def window(self, key: bytes) -> Window:
        end, start = _end_and_start.unpack_from(key, len(key) - self.suffix_bytes)
        return Window(start, end)

    @override
    def topic_suffix(self, window: Window) -> bytes:
        return self.suffix(window)

    @override
    def sequence(self, key: bytes) -> int:
        return 0

    @override
    def first(self, time: int) -> bytes:
        return _end_and_start.pack(time, 0)

    @override
    def last(self, time: int) -> bytes:
        return _end_and_start.pack(time, time)  # a session starts at its end at the latest


def changelog_key(row_key: bytes) -> bytes:
    """Returns the key in the changelog for the key of a row."""
    return row_key[SEGMENT_BYTES:]


def last_row_key(key: bytes, last_suffix: bytes) -> bytes:
    """The largest that ``k + suffix`` can be for any key ``k`` up to ``key`` and any suffix up to ``last_suffix``.

    That is not always ``key`` with ``last_suffix``: the suffix of a key that ``key`` begins with may be larger than
    what follows there in ``key``.
    """
    first_byte = last_suffix[0]
    shorter = (key[:length] for length, byte in enumerate(key) if byte <= first_byte)
    return max([key + last_suffix, *(prefix + last_suffix for prefix in shorter)])
