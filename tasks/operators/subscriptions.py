"""The bytes of foreign-key joins, as Kafka Streams writes them; only the parts that are needed are cut out.

    subscription  version (high bit: no hash), instruction, [hash: 16], primary key, primary partition: 4
    response      version (high bit: no hash), [hash: 16], the other table's value, or nothing
    store's key   length of the foreign key: 4, foreign key, primary key

``subscription_bytes.pyx`` has the same functions, compiled; if it could not be built, those below are used.
"""

from __future__ import annotations

from struct import Struct

from penstock.common.errors import SerializationError

_number = Struct(">i")
_read_number = _number.unpack_from

FORGET = 0
"""The entry has another foreign key now. Instructions are the second byte of a subscription."""
FORGET_AND_ANSWER = 1
"""The entry is deleted, or no longer has a foreign key: the response is null."""
ANSWER = 2
"""Subscribe; there is always a response."""
ANSWER_IF_THERE = 3
"""Subscribe; no response while the other table has no value: there is no result to delete."""

_NO_HASH = 0x80
_VERSION = 0x7F


def _beginning(instruction: int, *, with_hash: bool) -> bytes:
    return bytes((1 if with_hash else 1 | _NO_HASH, instruction))


WITH_HASH = tuple(_beginning(instruction, with_hash=True) for instruction in range(4))
"""The beginnings of subscriptions, by instruction."""
WITHOUT_HASH = tuple(_beginning(instruction, with_hash=False) for instruction in range(4))


def partition_bytes(partition: int) -> bytes:
    """Returns the end of the subscriptions of a task."""
    return _number.pack(partition)


def prefix(foreign_key: bytes) -> bytes:
    """Returns the prefix of the keys of all subscriptions to ``foreign_key``, and of no others."""
    return _number.pack(len(foreign_key)) + foreign_key


def unknown(what: str, data: bytes) -> SerializationError:
    """Returns the error for ``data`` of a version that is not known."""
    return SerializationError(
        f"a {what} has version {data[0] & _VERSION}, which is not known: a later release, or another application, "
        "has written it"
    )


def _prefix_of(row: bytes) -> bytes:
    """Returns :func:`prefix` of the foreign key that a subscription's key begins with."""
    return row[: 4 + _read_number(row)[0]]


def _row_key(foreign_key: bytes, subscription: bytes) -> bytes:
    """Returns the key under which a store keeps ``subscription``."""
    return prefix(foreign_key) + _primary_key(subscription)


def _primary_key(subscription: bytes) -> bytes:
    """Returns the key of the entry that subscribes. Raises SerializationError for a version that is not known."""
    begin = 2 if subscription[0] & _NO_HASH else 18
    match subscription[0] & _VERSION:
        case 1:
            return subscription[begin:-4]
        case 0:
            return subscription[begin:]
        case _:
            raise unknown("subscription", subscription)


def _response_to(subscription: bytes, data: bytes) -> tuple[int | None, bytes]:
    """Returns the partition to which the response goes, None if not known, and the response with ``data`` as value."""
    first = subscription[0]
    # Of version 0, which Kafka Streams wrote before 3.4, it is not known.
    partition = _read_number(subscription, len(subscription) - 4)[0] if first & _VERSION else None
    return partition, b"\x80" + data if first & _NO_HASH else b"\x00" + subscription[2:18] + data


def _value_if_current(response: bytes, hashed: bytes) -> bytes | None:
    """Returns the other table's value in ``response``, empty if there is none; None if it answers a subscription with
    another hash than ``hashed``. Raises SerializationError for a version that is not known."""
    if response[0] & _VERSION:
        raise unknown("response", response)
    begin = 1 if response[0] & _NO_HASH else 17
    return response[begin:] if response[1:begin] == hashed else None


try:
    from penstock.tasks.operators.subscription_bytes import prefix_of as prefix_of
    from penstock.tasks.operators.subscription_bytes import primary_key as primary_key
    from penstock.tasks.operators.subscription_bytes import response_to as response_to
    from penstock.tasks.operators.subscription_bytes import row_key as row_key
    from penstock.tasks.operators.subscription_bytes import value_if_current as value_if_current
except ImportError:  # it could not be compiled here
    prefix_of, primary_key, response_to = _prefix_of, _primary_key, _response_to
    row_key, value_if_current = _row_key, _value_if_current
