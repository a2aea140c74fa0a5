"""The text that is committed beside an offset: the partition's time, as Kafka Streams encodes it."""

from __future__ import annotations

import base64
import binascii
import struct

_TIME = struct.Struct(">Bq")
_CHARACTERS = 12  # of Base64 for version and time
_VERSIONS_WITH_TIME = (1, 2)


def encode_partition_time(partition_time: int) -> str:
    """Base64 of version 2 and the time (ms); the list of closed windows that may follow is empty."""
    return base64.b64encode(_TIME.pack(2, partition_time)).decode()


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
