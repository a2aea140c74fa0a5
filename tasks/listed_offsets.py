"""Offsets of many changelogs in one name, for metadata that has no room for the name of each store.

Kafka Streams reads metadata as names with a long each, and leaves out names that it does not know. So the offsets are
the name itself, in the order of the stores, and the long is a hash of the stores' names: a task that has other stores
reads nothing. An offset takes about 7 characters of the metadata, instead of 28.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping

from penstock.tasks.offsets import LISTED

_BITS = 6
_MORE = 1 << _BITS


def encode_listed(logged: Mapping[str, int], stores: Iterable[str]) -> dict[str, int]:
    """Returns the name for the offsets ``logged`` of some of ``stores``, with its long.

    >>> decode_listed(encode_listed({"b": 300}, ["a", "b"]), ["b", "a"])
    {'b': 300}
    """
    order = sorted(stores)
    # 0 means a store that has none.
    return {"".join(_digits(logged.get(store, -1) + 1) for store in order) + LISTED: _hash(order)}


def decode_listed(remembered: Mapping[str, int], stores: Iterable[str]) -> dict[str, int]:
    """Returns the offsets of ``stores`` from such a name among ``remembered``; an empty dict if it is of other
    stores."""
    order = sorted(stores)
    wanted = _hash(order)
    for name, hashed in remembered.items():
        if name.endswith(LISTED) and hashed == wanted:
            numbers = _numbers(name.removesuffix(LISTED))
            return {store: number - 1 for store, number in zip(order, numbers, strict=True) if number}
    return {}


def _hash(order: list[str]) -> int:
    return int.from_bytes(hashlib.blake2b("\n".join(order).encode(), digest_size=8).digest(), signed=True)


def _digits(number: int) -> str:
    """Returns a number in characters of one byte each, the lowest bits first."""
    text = ""
    while number >= _MORE:
        text += chr(number % _MORE | _MORE)
        number >>= _BITS
    return text + chr(number)


def _numbers(text: str) -> Iterator[int]:
    number = shift = 0
    for character in map(ord, text):
        number |= (character & _MORE - 1) << shift
        shift += _BITS
        if character < _MORE:
            yield number
            number = shift = 0
