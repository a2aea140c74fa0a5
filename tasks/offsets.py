"""The text that is committed beside an offset, as Kafka Streams encodes it: the partition's time, and what operators
remember over a restart."""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Iterable, Mapping

_TIME = struct.Struct(">Bq")
_COUNT = struct.Struct(">i")
_MS = struct.Struct(">q")
_CHARACTERS = 12  # of Base64 for version and time
_VERSIONS_WITH_TIME = (1, 2)
_VERSION = 2
_MOST_BYTES = 3000
"""Of Base64 that is 4000 characters: brokers refuse more than 4096 (``offset.metadata.max.bytes``), for good."""
_BASE64 = re.compile("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


def encode_partition_time(partition_time: int, remembered: Mapping[str, int] | None = None) -> str:
    """Base64 of version 2 and the time (ms); where operators have ``remembered`` some (ms) their list follows."""
    data = _TIME.pack(_VERSION, partition_time)
    if remembered:
        data += _COUNT.pack(len(remembered))
        for key, ms in remembered.items():
            name = key.encode()
            data += _COUNT.pack(len(name)) + name + _MS.pack(ms)
    return base64.b64encode(data).decode()


def with_room(keys: Iterable[str]) -> list[str]:
    """Those of ``keys``, under which operators remember something, for which there is room beside an offset. Short ones
    come first: more of them fit."""
    room, chosen = _MOST_BYTES - _TIME.size - _COUNT.size, list[str]()
    for key in sorted(keys, key=len):
        room -= _COUNT.size + len(key.encode()) + _MS.size
        if room < 0:
            break
        chosen.append(key)
    return chosen


def decode_partition_time(metadata: str) -> int:
    """The time (ms), or −1 where ``metadata`` is empty or not of this form.

    What follows the time does not matter: stray characters may (see ``kafka/committed.py``).
    """
    try:
        data = base64.b64decode(metadata[:_CHARACTERS], validate=True)
    except (binascii.Error, ValueError):
        return -1
    if len(data) < _TIME.size or data[0] not in _VERSIONS_WITH_TIME:
        return -1
    time: int = _TIME.unpack_from(data)[1]
    return time


def time_of_commit(metadata: str) -> int:
    """The largest time (ms) that the records of a commit had come to, those that operators made of them included; −1 if
    that is not known."""
    return max(decode_partition_time(metadata), *decode_remembered(metadata).values(), -1)


def decode_remembered(metadata: str) -> dict[str, int]:
    """What operators remembered (ms); nothing where ``metadata`` has no whole list of it.

    Stray characters may follow the list, or stand in its place: what they spell is hardly a list, nor what an operator
    asks for.
    """
    match = _BASE64.match(metadata)
    data = base64.b64decode(match[0]) if match else b""
    if len(data) < _TIME.size or data[0] != _VERSION:
        return {}
    found: dict[str, int] = {}
    at = _TIME.size
    try:
        (count,) = _COUNT.unpack_from(data, at)
        at += _COUNT.size
        for _ in range(count):
            (length,) = _COUNT.unpack_from(data, at)
            begin, end = at + _COUNT.size, at + _COUNT.size + length
            (found[data[begin:end].decode()],) = _MS.unpack_from(data, max(end, begin))
            at = end + _MS.size
    except (struct.error, UnicodeDecodeError):
        return {}
    return found
