"""Foreign-key joins: the operators that send and receive subscriptions and responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.common.murmur3 import murmur3_128
from penstock.common.serdes import Serde
from penstock.state.write_buffer.write_buffer import ABSENT
from penstock.tasks.closures import closure_of, make_closure
from penstock.tasks.operators.subscriptions import (
    ANSWER,
    ANSWER_IF_THERE,
    FORGET,
    FORGET_AND_ANSWER,
    WITH_HASH,
    WITHOUT_HASH,
    partition_bytes,
    prefix,
    prefix_of,
    primary_key,
    response_to,
    row_key,
    value_if_current,
)
from penstock.tasks.operators.versions import latest_only
from penstock.tasks.wiring import StreamEdge, TableEdge, Wiring
from penstock.topology.physical.operators.foreign_key import (
    ForeignTableJoin,
    ResponseJoin,
    SubscriptionJoin,
    SubscriptionReceive,
    SubscriptionSend,
)
from penstock.topology.processor_api.processor_wrapper import Change


@closure_of(SubscriptionSend)
def _send(spec: SubscriptionSend, wiring: Wiring) -> TableEdge:
    run = _left_send(spec, wiring) if spec.left else _inner_send(spec, wiring)
    return latest_only(run, wiring.context, counted=True) if spec.of_versions else run


def _inner_send(spec: SubscriptionSend, wiring: Wiring) -> TableEdge:
    """For an inner join, not every update gets a response: a result must be deleted only if there may be one."""
    forward, context, failed, name = wiring.forward, wiring.context, wiring.failed, wiring.name
    foreign_key_of, moved, value_bytes, end_of = _send_functions(spec, wiring)

    def run(key: Any, new: Any, old: Any, timestamp: int) -> None:
        try:
            was = None if old is None else foreign_key_of(key, old)
            now = None if new is None else foreign_key_of(key, new)
            end = end_of(key) if new is None else murmur3_128(value_bytes(new)) + end_of(key)
            has_moved = now is not None and was is not None and moved(was, now)
        except Exception as error:
            failed(error, name, key, Change(new, old), timestamp)
            return
        begin = WITHOUT_HASH if new is None else WITH_HASH
        if now is None:
            if new is not None:
                context.dropped_records += 1
            if was is not None:
                forward(was, begin[FORGET_AND_ANSWER] + end, timestamp)
        elif has_moved:
            forward(was, begin[FORGET] + end, timestamp)
            forward(now, begin[ANSWER] + end, timestamp)
        else:
            forward(now, begin[ANSWER_IF_THERE] + end, timestamp)

    return run


def _left_send(spec: SubscriptionSend, wiring: Wiring) -> TableEdge:
    """For a left join, every update gets a response. If it has no foreign key, like a deletion, any task responds that
    gets a null key."""
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
            failed(error, name, key, Change(new, old), timestamp)
            return
        begin = WITHOUT_HASH if new is None else WITH_HASH
        if has_moved:
            forward(was, begin[FORGET] + end, timestamp)
        forward(now, begin[ANSWER] + end, timestamp)

    return run


def _send_functions(
    spec: SubscriptionSend, wiring: Wiring
) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], bool], Callable[[Any], bytes], Callable[[Any], bytes]]:
    """Returns four functions: the foreign key of an entry; a test whether the bytes of two foreign keys differ; the
    bytes of a value; and the end of the subscriptions of a key."""
    extractor, foreign_key_bytes = spec.extractor, _filled(spec.serdes.foreign_key).serialize
    key_bytes = _key_bytes(wiring, _filled(spec.serdes.primary_key))
    # The partition of the record, if there is one: a task's source partitions have its number.
    partition = partition_bytes(wiring.context.task_id.partition)

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
                row = row_key(key_bytes(key), value)
                put(row, value if instruction >= ANSWER else None, timestamp, context.headers)
            elif instruction != ANSWER:
                context.dropped_records += 1
                return
        except Exception as error:
            failed(error, name, key, value, timestamp)
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
        if instruction == FORGET:
            return
        try:
            entry = ABSENT if key is None else look_up(key)
            other, data = entry[0], b""
            if other is not None:
                timestamp = max(timestamp, entry[1])
                if instruction != FORGET_AND_ANSWER:
                    data = value_bytes(other)
            elif instruction == ANSWER_IF_THERE:
                return
            to, response = response_key(primary_key(value)), response_to(value, data)
        except Exception as error:
            failed(error, name, key, value, timestamp)
            return
        forward(to, response, timestamp)

    return run


@closure_of(ForeignTableJoin)
def _foreign_table_join(spec: ForeignTableJoin, wiring: Wiring) -> TableEdge:
    """Sends one response for each subscription, in the order of the primary keys' bytes."""
    forward, failed, name = wiring.forward, wiring.failed, wiring.name
    scan_group = wiring.store.buffer.scan_group
    key_bytes = _key_bytes(wiring, _filled(spec.serdes.foreign_key))
    value_bytes, response_key = _filled(spec.serdes.right_value).serialize, _response_key(spec, wiring)

    def run(key: Any, new: Any, old: Any, timestamp: int) -> None:
        data = None
        try:
            group = prefix(key_bytes(key))
            begin = len(group)
            for row, entry in scan_group(group, prefix_of):
                if not row.startswith(group):
                    break
                if data is None:  # once for all subscriptions; if there are none, no serde is called
                    data = b"" if new is None else value_bytes(new)
                forward(response_key(row[begin:]), response_to(entry[0], data), timestamp)
        except Exception as error:
            failed(error, name, key, Change(new, old), timestamp)

    return latest_only(run, wiring.context, counted=True) if spec.of_versions else run


@closure_of(ResponseJoin)
def _response_join(spec: ResponseJoin, wiring: Wiring) -> StreamEdge:
    forward, context, failed, name = wiring.forward, wiring.context, wiring.failed, wiring.name
    look_up, joiner, left = make_closure(spec.table, wiring), spec.joiner, spec.left
    value_bytes = _filled(spec.serdes.left_value).serialize
    other_of = _filled(spec.serdes.right_value).deserialize

    def run(key: Any, value: Any, timestamp: int) -> None:
        try:
            current = look_up(key)[0]
            data = value_if_current(value, b"" if current is None else murmur3_128(value_bytes(current)))
            if data is None:
                context.dropped_records += 1
                return
            other = other_of(data) if data else None
            joined = None if other is None and (not left or current is None) else joiner(current, other)
        except Exception as error:
            failed(error, name, key, value, timestamp)
            return
        forward(key, joined, timestamp)

    return run


def _filled(serde: Serde[Any] | None) -> Serde[Any]:
    assert serde is not None  # the task program has them all
    return serde


def _key_bytes(wiring: Wiring, serde: Serde[Any]) -> Callable[[Any], bytes]:
    """Returns the function by which ``serde`` writes a key that the node receives."""
    undecoded = wiring.undecoded_key
    return serde.serialize if undecoded is None else _rewritten(undecoded, serde)


def _response_key(spec: SubscriptionJoin | ForeignTableJoin, wiring: Wiring) -> Callable[[bytes], Any]:
    """Returns the function from a primary key as in a subscription to the key of the response, as its sink takes it."""
    stored = _filled(spec.serdes.primary_key)
    return stored.deserialize if spec.decodes_key else _rewritten(stored, _filled(spec.serdes.response_key))


def _rewritten(read: Serde[Any], write: Serde[Any]) -> Callable[[bytes], bytes]:
    if read == write:
        return _same
    return lambda data: write.serialize(read.deserialize(data))


def _same(data: bytes) -> bytes:
    return data
