"""Serdes of windowed keys, byte for byte as Kafka Streams' own.

A record of a windowed table has a :class:`~penstock.common.windows.Windowed` key::

    time windows   key, 8 bytes of window start
    sessions       key, 8 bytes of window end, 8 bytes of window start

All numbers are signed and big-endian. The end of a time window is not written: a reader computes it from the size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from struct import Struct
from typing import Any, SupportsIndex, TypeVar

from typing_extensions import override

from penstock.common.errors import SerializationError
from penstock.common.serdes import Serde, SerdeOver
from penstock.common.shown import shown_with_type
from penstock.common.time import Duration, to_ms
from penstock.common.windows import Window, Windowed, time_window

T = TypeVar("T")

_START = Struct(">q")
_END_AND_START = Struct(">qq")


@dataclass(frozen=True, repr=False)
class WindowedSerde(SerdeOver[Windowed[T]]):
    """A serde of windowed keys: ``inner`` is that of the key alone. Made by :class:`WindowedSerdes`.

    ``window_size_ms`` is None where windows are sessions.
    """

    window_size_ms: int | None = None

    @property
    def suffix_bytes(self) -> int:
        """Number of bytes after those of the key: records are partitioned by the bytes before them."""
        return (_END_AND_START if self.window_size_ms is None else _START).size

    @override
    def over(self, inner: Serde[Any]) -> Serde[Windowed[T]]:
        return _windowed(inner, self.window_size_ms)

    @override
    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        return _windowed, (self.inner, self.window_size_ms)


class WindowedSerdes:
    """Serdes of the keys of windowed tables. Mirrors ``WindowedSerdes``.

    A windowed table and tables made from it know their serde; a program that reads or writes a topic of windowed keys
    otherwise must give it: ``Consumed.with_(WindowedSerdes.time_windowed_serde_from(Serdes.string(), size), ...)``.
    """

    @staticmethod
    def time_windowed_serde_from(inner: Serde[T], window_size: Duration) -> Serde[Windowed[T]]:
        """Keys in windows of ``window_size``, of fixed size or sliding: the key's bytes and the window's start.

        ``window_size`` is that with which the windows were made (``TimeWindows``' size, ``SlidingWindows``' time
        difference): a reader computes the end of a window from it.

        >>> import penstock as ps
        >>> serde = ps.WindowedSerdes.time_windowed_serde_from(ps.Serdes.string(), 5)
        >>> serde.serialize(ps.Windowed("A", ps.Window(10, 15))).hex()
        '41000000000000000a'
        >>> print(serde.deserialize(bytes.fromhex("41000000000000000a")))
        [A@10/15]
        """
        return _windowed(_checked(inner), to_ms(window_size, "window_size"))

    @staticmethod
    def session_windowed_serde_from(inner: Serde[T]) -> Serde[Windowed[T]]:
        """Keys in sessions: the key's bytes, the session's end, its start.

        >>> import penstock as ps
        >>> serde = ps.WindowedSerdes.session_windowed_serde_from(ps.Serdes.string())
        >>> serde.serialize(ps.Windowed("A", ps.Window(5, 20))).hex()
        '4100000000000000140000000000000005'
        """
        return _windowed(_checked(inner), None)


def _checked(inner: Serde[T]) -> Serde[T]:
    if not isinstance(inner, Serde):
        raise SerializationError(f"WindowedSerdes: a Serde of the keys is needed, not {shown_with_type(inner)}")
    return inner


@cache
def _windowed(inner: Serde[Any], window_size_ms: int | None) -> WindowedSerde[Any]:
    """Returns the serde, made once for each pair of arguments, so that two of the same are equal."""
    if window_size_ms is None:
        name, suffix = f"session-windowed({inner.name})", _END_AND_START
    else:
        name, suffix = f"time-windowed({inner.name}, {window_size_ms} ms)", _START
    pack, unpack, size = suffix.pack, suffix.unpack_from, suffix.size
    key_bytes, key_of = inner.serialize, inner.deserialize

    def serialize(windowed: Windowed[Any]) -> bytes:
        if not isinstance(windowed, Windowed):
            raise SerializationError(f"{name}: a Windowed key expected, not {shown_with_type(windowed)}")
        key, (start, end) = windowed
        return key_bytes(key) + (pack(start) if window_size_ms is not None else pack(end, start))

    def deserialize(data: bytes) -> Windowed[Any]:
        at = len(data) - size
        if at < 0:
            raise SerializationError(f"{name}: a key and {size} bytes expected, {len(data)} received")
        if window_size_ms is not None:
            window = time_window(unpack(data, at)[0], window_size_ms)
        else:
            end, start = unpack(data, at)
            window = Window(start, end)
        return Windowed(key_of(data[:at]), window)

    return WindowedSerde(name, serialize, deserialize, inner=inner, window_size_ms=window_size_ms)
