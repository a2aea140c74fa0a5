"""Kafka's default partitioning: murmur2 of the key's bytes, as the Java producer computes it.

``hashes.pyx`` has the same, compiled; if that could not be built, the one below is used."""

from __future__ import annotations

from struct import Struct

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_WORDS = [Struct(f"<{words}I").unpack_from for words in range(64)]
"""By number: functions that read this many words from the beginning of data."""


def _murmur2(data: bytes) -> int:
    """The 32-bit murmur2 of ``data`` as an unsigned number (Java prints the same bits as a signed one)."""
    length = len(data)
    h = (_SEED ^ length) & _MASK
    words = length >> 2
    whole = words << 2
    for k in _WORDS[words](data) if words < len(_WORDS) else Struct(f"<{words}I").unpack_from(data):
        k = k * _M & _MASK
        h = (h * _M ^ (k ^ (k >> 24)) * _M) & _MASK
    if length != whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ (h >> 13)) * _M & _MASK
    return h ^ (h >> 15)


def _partition_for(key: bytes, partitions: int) -> int:
    """The partition, of ``partitions``, to which Kafka's default partitioner sends ``key``."""
    return (_murmur2(key) & 0x7FFFFFFF) % partitions


try:
    from penstock.common.hashes import murmur2 as murmur2
    from penstock.common.hashes import partition_for as partition_for
except ImportError:  # it could not be compiled here
    murmur2, partition_for = _murmur2, _partition_for
