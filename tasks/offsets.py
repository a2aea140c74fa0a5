"""The text that is committed as metadata of an offset, as Kafka Streams encodes it: the partition's time, and what
operators remember over a restart."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import struct
from collections.abc import Mapping, Sequence

from penstock.common.ids import TaskId
from penstock.common.log import logger

_TIME = struct.Struct(">Bq")
_COUNT = struct.Struct(">i")
_MS = struct.Struct(">q")
_CHARACTERS = 12  # of Base64 for version and time
_VERSIONS_WITH_TIME = (1, 2)
_VERSION = 2
_BASE64 = re.compile("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


LONGEST = 4096
"""A broker refuses a commit whose metadata is longer, by its default (``offset.metadata.max.bytes``)."""
STREAM_TIME = "/stream-time"
"""Suffix of the names of stream times that penstock remembers over a restart. In Kafka Streams, an operator's stream
time begins again instead. No store has such a name."""
TTL_TIME = f"ttl/of-task{STREAM_TIME}"
"""Name of the time by which rows with a TTL expire: no operator has such a name."""
LOGGED = "/changelog-offset"
"""Suffix of the names of offsets up to which a commit covers changelogs (``commit_coverage.py``)."""


LISTED = "/changelog-offsets"
"""Suffix of the one name that has these offsets for all stores, if a name for each would be too long."""


def short_name(name: str) -> str:
    """Returns the short form of a name of penstock's own, for metadata that has no room for all names."""
    return f"~{hashlib.blake2b(name.encode(), digest_size=4).hexdigest()}"


def fitting(remembered: Mapping[str, int]) -> tuple[Mapping[str, int], Sequence[str]]:
    """Returns the part of ``remembered`` that fits into the metadata of an offset, and the names of the rest.

    Names of penstock's own are shortened if all of them are too long. If even that is not enough, offsets of changelogs
    are left out first, then times of penstock's own, the last ones of the topology before others, and then what Kafka
    Streams remembers, too.
    """
    if _length(remembered) <= LONGEST:
        return remembered, ()
    order = sorted(remembered, key=_rank)
    kept: dict[str, int] = {}
    left = LONGEST - _length({})
    for number, name in enumerate(order):
        written = short_name(name) if name.endswith((LOGGED, STREAM_TIME)) else name
        left -= _characters(written)
        if left < 0:
            return kept, order[number:]
        kept[written] = remembered[name]
    return kept, ()


def _rank(name: str) -> int:
    """0 for a name of Kafka Streams' own; those with the largest rank are left out first."""
    return 2 if name.endswith((LOGGED, LISTED)) else int(name.endswith(STREAM_TIME))


def warn_left_out(task_id: TaskId, names: Sequence[str]) -> None:
    """Warn of the names that :func:`fitting` has left out."""
    logger(__name__).warning(
        "the metadata of committed offsets has no room for all times that operators remember over a restart: after one "
        "those left out take records that come too late, or emit windows again. Give stores shorter names, or cut the "
        "sub-topology in two by repartition()",
        task=str(task_id),
        left_out=list(names),
        longest_metadata_bytes=LONGEST,
    )


def _characters(name: str) -> float:
    return (len(name.encode()) + _COUNT.size + _MS.size) * 4 / 3


def _length(remembered: Mapping[str, int]) -> float:
    # Base64 is filled up to a multiple of four characters.
    return sum(map(_characters, remembered)) + (_TIME.size + _COUNT.size) * 4 / 3 + 4


def encode_partition_time(partition_time: int, remembered: Mapping[str, int] | None = None) -> str:
    """Returns Base64 of version 2 and the time (ms), with the list of times (ms) that operators have ``remembered``."""
    data = _TIME.pack(_VERSION, partition_time)
    if remembered:
        data += _COUNT.pack(len(remembered))
        for key, ms in remembered.items():
            name = key.encode()
            data += _COUNT.pack(len(name)) + name + _MS.pack(ms)
    return base64.b64encode(data).decode()


def decode_partition_time(metadata: str) -> int:
    """Returns the time (ms), or −1 if ``metadata`` is empty or not of this form.

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


def decode_remembered(metadata: str) -> dict[str, int]:
    """Returns the times (ms) that operators remembered, by name; none if ``metadata`` has no whole list of them.

    Stray characters may follow the list, or be in its place: they hardly form a list, or the names that operators ask
    for.
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
