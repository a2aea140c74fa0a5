"""Foreign-key joins: who sends, receives, answers and resolves subscriptions.

Subscriptions and responses travel as the bytes that Kafka Streams writes; nothing but what is needed is cut out:

    subscription  version (high bit: no hash), instruction, [hash: 16], primary key, primary partition: 4
    response      version (high bit: no hash), [hash: 16], the other table's value, or nothing
    store's key   length of the foreign key: 4, foreign key, primary key
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any

from penstock.common.errors import SerializationError
from penstock.common.murmur3 import murmur3_128
from penstock.common.serdes import Serde
from penstock.state.write_buffer import ABSENT
from penstock.tasks.closures import closure_of, make_closure
from penstock.tasks.operators.versions import latest_only
from penstock.tasks.wiring import StreamEdge, TableEdge, Wiring
from penstock.topology.physical.foreign_key_operators import (
    ForeignTableJoin,
    ResponseJoin,
    SubscriptionJoin,
    SubscriptionReceive,
    SubscriptionSend,
)

_number = Struct(">i")
_read_number = _number.unpack_from

# The second byte of a subscription.
_FORGET = 0
"""The entry has another foreign key now."""
_FORGET_AND_ANSWER = 1
"""The entry is gone, or has no foreign key any more: the answer is null."""
_ANSWER = 2
"""Subscribe; there is an answer in any case."""
_ANSWER_IF_THERE = 3
"""Subscribe; no answer while the other table has no value: there is no result yet that must go."""

_NO_HASH = 0x80
_VERSION = 0x7F


def _beginning(instruction: int, *, with_hash: bool) -> bytes:
    return bytes((1 if with_hash else 1 | _NO_HASH, instruction))


_WITH_HASH = tuple(_beginning(instruction, with_hash=True) for instruction in range(4))
_WITHOUT_HASH = tuple(_beginning(instruction, with_hash=False) for instruction in range(4))


@closure_of(SubscriptionSend)
def _send(spec: SubscriptionSend, wiring: Wiring) -> TableEdge:
    run = _left_send(spec, wiring) if spec.left else _inner_send(spec, wiring)
    return latest_only(run, wiring.context, counted=True) if spec.of_versions else run


def _inner_send(spec: SubscriptionSend, wiring: Wiring) -> TableEdge:
    """A result must be deleted only where there may be one: so not every update is answered."""
    forward, context, failed, name = wiring.forward, wiring.context, wiring.failed, wiring.name
    foreign_key_of, moved, value_bytes, end_of = _send_functions(spec, wiring)

    def run(key: Any, new: Any, old: Any, timestamp: int) -> None:
        try:
            was = None if old is None else foreign_key_of(key, old)
            now = None if new is None else foreign_key_of(key, new)
            end = end_of(key) if new is None else murmur3_128(value_bytes(new)) + end_of(key)
            has_moved = now is not None and was is not None and moved(was, now)
        except Exception as error:
            failed(error, name, key)
            return
        begin = _WITHOUT_HASH if new is None else _WITH_HASH
        if now is None:
            if new is not None:
                context.dropped_records += 1
            if was is not None:
                forward(was, begin[_FORGET_AND_ANSWER] + end, timestamp)
        elif has_moved:
            forward(was, begin[_FORGET] + end, timestamp)
            forward(now, begin[_ANSWER] + end, timestamp)
        else:
            forward(now, begin[_ANSWER_IF_THERE] + end, timestamp)

    return run


def _left_send(spec: SubscriptionSend, wiring: Wiring) -> TableEdge:
    """Every update is answered; one without a foreign key, as a deletion, by whichever task gets a null key."""
    forward, failed, name = wiring.forward, wiring.failed, wiring.name
    foreign_key_of, moved, value_bytes, end_of = _send_functions(spec, wiring)

    def run(key: Any, new: Any, old: Any, timestamp: int) -> None:
        if new is None and old is None:
            return
        try:
            was = None if old is None else foreign_key_of(key, old)
            now = None if new is None else foreign_key_of(key, new)
            end = end_of(key) if new is None else murmur3_128(value_bytes(new)) + end_of(key)
            has_moved = was is not None and (now is None or moved(was, now))
        except Exception as error:
            failed(error, name, key)
            return
        begin = _WITHOUT_HASH if new is None else _WITH_HASH
        if has_moved:
            forward(was, begin[_FORGET] + end, timestamp)
        forward(now, begin[_ANSWER] + end, timestamp)

    return run


def _send_functions(
    spec: SubscriptionSend, wiring: Wiring
) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], bool], Callable[[Any], bytes], Callable[[Any], bytes]]:
    """Four functions: the foreign key of an entry; whether two are different, which is a matter of their bytes; the
    bytes of a value; and the end of the subscriptions of a key."""
    extractor, foreign_key_bytes = spec.extractor, _filled(spec.serdes.foreign_key).serialize
    key_bytes = _key_bytes(wiring, _filled(spec.serdes.primary_key))
    # The partition of the record, if there is one: a task's source partitions have its number.
    partition = _number.pack(wiring.context.task_id.partition)

    def moved(was: Any, now: Any) -> bool:
        return was is not now and foreign_key_bytes(was) != foreign_key_bytes(now)

    def end_of(key: Any) -> bytes:
        return key_bytes(key) + partition

    foreign_key_of = extractor if spec.with_key else lambda key, value: extractor(value)
    return foreign_key_of, moved, _filled(spec.serdes.left_value).serialize, end_of


@closure_of(SubscriptionReceive)
def _receive(spec: SubscriptionReceive, wiring: Wiring) -> StreamEdge:
    """A null foreign key comes from left joins only, and is not stored: it will never have a value."""
    forward, context, failed, name = wiring.forward, wiring.context, wiring.failed, wiring.name
    put = wiring.store.buffer.put
    key_bytes = _key_bytes(wiring, _filled(spec.serdes.foreign_key))

    def run(key: Any, value: Any, timestamp: int) -> None:
        try:
            instruction = value[1]
            if key is not None:
                row = _prefix(key_bytes(key)) + _primary_key(value)
                put(row, value if instruction >= _ANSWER else None, timestamp, context.headers)
            elif instruction != _ANSWER:
                context.dropped_records += 1
                return
        except Exception as error:
            failed(error, name, key)
            return
        forward(key, value, timestamp)

    return run


@closure_of(SubscriptionJoin)
def _join(spec: SubscriptionJoin, wiring: Wiring) -> StreamEdge:
    forward, failed, name = wiring.forward, wiring.failed, wiring.name
    look_up = make_closure(spec.table, wiring)
    value_bytes, response_key = _filled(spec.serdes.right_value).serialize, _response_key(spec, wiring)

    def run(key: Any, value: Any, timestamp: int) -> None:
        instruction = value[1]
        if instruction == _FORGET:
            return
        try:
            entry = ABSENT if key is None else look_up(key)
            other, data = entry[0], b""
            if other is not None:
                timestamp = max(timestamp, entry[1])
                if instruction != _FORGET_AND_ANSWER:
                    data = value_bytes(other)
            elif instruction == _ANSWER_IF_THERE:
                return
            primary_key, response = response_key(_primary_key(value)), _response_to(value, data)
        except Exception as error:
            failed(error, name, key)
            return
        forward(primary_key, response, timestamp)

    return run


@closure_of(ForeignTableJoin)
def _foreign_table_join(spec: ForeignTableJoin, wiring: Wiring) -> TableEdge:
    """One response for each subscription, in the order of the primary keys' bytes."""
    forward, failed, name = wiring.forward, wiring.failed, wiring.name
    scan_group = wiring.store.buffer.scan_group
    key_bytes = _key_bytes(wiring, _filled(spec.serdes.foreign_key))
    value_bytes, response_key = _filled(spec.serdes.right_value).serialize, _response_key(spec, wiring)

    def run(key: Any, new: Any, old: Any, timestamp: int) -> None:
        data = None
        try:
            prefix = _prefix(key_bytes(key))
            begin = len(prefix)
            for row, entry in scan_group(prefix, _prefix_of):
                if not row.startswith(prefix):
                    break
                if data is None:  # once for all subscriptions; where there is none, no serde is asked
                    data = b"" if new is None else value_bytes(new)
                forward(response_key(row[begin:]), _response_to(entry[0], data), timestamp)
        except Exception as error:
            failed(error, name, key)

    return latest_only(run, wiring.context, counted=True) if spec.of_versions else run


@closure_of(ResponseJoin)
def _response_join(spec: ResponseJoin, wiring: Wiring) -> StreamEdge:
    forward, context, failed, name = wiring.forward, wiring.context, wiring.failed, wiring.name
    look_up, joiner, left = make_closure(spec.table, wiring), spec.joiner, spec.left
    value_bytes = _filled(spec.serdes.left_value).serialize
    other_of = _filled(spec.serdes.right_value).deserialize

    def run(key: Any, value: Any, timestamp: int) -> None:
        try:
            if value[0] & _VERSION:
                raise _unknown("response", value)
            current = look_up(key)[0]
            hashed = b"" if current is None else murmur3_128(value_bytes(current))
            begin = 1 if value[0] & _NO_HASH else 17
            if value[1:begin] != hashed:
                context.dropped_records += 1
                return
            other = other_of(value[begin:]) if len(value) > begin else None
            joined = None if other is None and (not left or current is None) else joiner(current, other)
        except Exception as error:
            failed(error, name, key)
            return
        forward(key, joined, timestamp)

    return run


def _filled(serde: Serde[Any] | None) -> Serde[Any]:
    assert serde is not None  # the task program has them all
    return serde


def _key_bytes(wiring: Wiring, serde: Serde[Any]) -> Callable[[Any], bytes]:
    """How ``serde`` writes a key that the node receives."""
    undecoded = wiring.undecoded_key
    return serde.serialize if undecoded is None else _rewritten(undecoded, serde)


def _response_key(spec: SubscriptionJoin | ForeignTableJoin, wiring: Wiring) -> Callable[[bytes], Any]:
    """From a primary key as it stands in a subscription to the key of the response, as its sink takes it."""
    stored = _filled(spec.serdes.primary_key)
    return stored.deserialize if spec.decodes_key else _rewritten(stored, _filled(spec.serdes.response_key))


def _rewritten(read: Serde[Any], write: Serde[Any]) -> Callable[[bytes], bytes]:
    if read == write:
        return _same
    return lambda data: write.serialize(read.deserialize(data))


def _same(data: bytes) -> bytes:
    return data


def _prefix(foreign_key: bytes) -> bytes:
    """What the keys of all subscriptions to ``foreign_key`` begin with, and no others."""
    return _number.pack(len(foreign_key)) + foreign_key


def _prefix_of(row: bytes) -> bytes:
    """:func:`_prefix` of the foreign key that a subscription's key begins with."""
    return row[: 4 + _read_number(row)[0]]


def _primary_key(subscription: bytes) -> bytes:
    if subscription[0] == 1:  # version 1 with a hash: nearly always
        return subscription[18:-4]
    begin = 2 if subscription[0] & _NO_HASH else 18
    match subscription[0] & _VERSION:
        case 1:
            return subscription[begin:-4]
        case 0:
            return subscription[begin:]
        case _:
            raise _unknown("subscription", subscription)


def _response_to(subscription: bytes, data: bytes) -> tuple[int | None, bytes]:
    """The response, ``data`` being the other table's value, with the partition to which it goes."""
    first = subscription[0]
    # Of version 0, which Kafka Streams wrote before 3.4, it is not known.
    partition = _number.unpack_from(subscription, len(subscription) - 4)[0] if first & _VERSION else None
    return partition, b"\x80" + data if first & _NO_HASH else b"\x00" + subscription[2:18] + data


def _unknown(what: str, data: bytes) -> SerializationError:
    return SerializationError(
        f"a {what} has version {data[0] & _VERSION}, which is not known: a later release, or another application, "
        "has written it"
    )
