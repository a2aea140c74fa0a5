"""The 128-bit murmur3 by which foreign-key joins compare values, as Kafka Streams computes it.

``hashes.pyx`` has the same, compiled; if that could not be built, the one below is used."""

from __future__ import annotations

from struct import Struct, unpack_from

_SEED = 104729
_C1 = 0x87C37B91114253D5
_C2 = 0x4CF5AD432745937F
_MASK = 0xFFFFFFFFFFFFFFFF
_pack = Struct(">QQ").pack


def _murmur3_128(data: bytes) -> bytes:
    """The 16 bytes of the murmur3 (x64, 128 bits, seed 104729) of ``data``: two numbers of 8 bytes, big endian."""
    length = len(data)
    whole = length // 16
    h1 = h2 = _SEED
    words = iter(unpack_from(f"<{2 * whole}Q", data))
    for k1, k2 in zip(words, words, strict=True):
        k1 = k1 * _C1 & _MASK
        h1 ^= ((k1 << 31 | k1 >> 33) & _MASK) * _C2 & _MASK
        h1 = ((((h1 << 27 | h1 >> 37) & _MASK) + h2) * 5 + 0x52DCE729) & _MASK
        k2 = k2 * _C2 & _MASK
        h2 ^= ((k2 << 33 | k2 >> 31) & _MASK) * _C1 & _MASK
        h2 = ((((h2 << 31 | h2 >> 33) & _MASK) + h1) * 5 + 0x38495AB5) & _MASK
    if rest := data[16 * whole :]:
        k1 = int.from_bytes(rest[:8], "little") * _C1 & _MASK
        h1 ^= ((k1 << 31 | k1 >> 33) & _MASK) * _C2 & _MASK
        k2 = int.from_bytes(rest[8:], "little") * _C2 & _MASK
        h2 ^= ((k2 << 33 | k2 >> 31) & _MASK) * _C1 & _MASK
    h1 = (h1 ^ length) + (h2 := h2 ^ length) & _MASK
    h2 = h2 + h1 & _MASK
    h1, h2 = _mixed(h1), _mixed(h2)
    h1 = h1 + h2 & _MASK
    return _pack(h1, h2 + h1 & _MASK)


def _mixed(h: int) -> int:
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & _MASK
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return h ^ h >> 33


try:
    from penstock.common.hashes import murmur3_128 as murmur3_128
except ImportError:  # it could not be compiled here
    murmur3_128 = _murmur3_128
