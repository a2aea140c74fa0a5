"""Kafka's variable-length integers: zigzag varints, as in its record batches."""

from __future__ import annotations

_LONGEST_BITS = 70
"""Bits of ten bytes, which hold any number of 64 bits. Without a limit, time would grow with the square of a length."""


def varint(number: int) -> bytes:
    """Returns ``number`` as a zigzag varint: 0 is ``00``, -1 is ``01``, 1 is ``02``, 300 is ``d804``."""
    rest = number << 1 if number >= 0 else ((-number) << 1) - 1
    written = bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    written.append(rest)
    return bytes(written)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns the number that begins at index ``at``, and the index after it. Raises IndexError if it does not end
    within ten bytes."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift >= _LONGEST_BITS:
            raise IndexError("a number that has no end")
