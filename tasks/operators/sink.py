"""Sinks: the end of a sub-topology."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from operator import index
from typing import Any, Protocol

from penstock.common.errors import MissingTopicError, ProductionError, RetriableError
from penstock.common.handlers import SerializationExceptionOrigin
from penstock.common.log import logger
from penstock.common.murmur2 import partition_for
from penstock.common.records import NO_HEADERS, ProducerRecord
from penstock.common.serdes import bound, why_refused
from penstock.common.shown import shown_with_type
from penstock.common.windowed_serdes import WindowedSerde
from penstock.tasks.failures import is_explained
from penstock.tasks.wiring import StreamEdge, Wiring
from penstock.topology.physical.topology import SinkNode
from penstock.topology.processor_api.processor import RecordContext, StreamPartitioner

_DEFAULT = (-1,)
"""The choice to leave the partition to Kafka's default partitioner."""


def sink(node: SinkNode, topic: str | None, wiring: Wiring) -> StreamEdge:
    """Returns the closure that serialises a record and sends it with its timestamp and headers. ``topic`` is None if
    the node has a function that chooses it."""
    if topic is None:
        return _topic_choosing_sink(node, wiring)
    if node.partitioner is not None:
        return _partitioning_sink(node, topic, node.partitioner, wiring)
    if isinstance(node.key_serde, WindowedSerde) and not node.internal:
        return _windowed_sink(node, topic, node.key_serde.suffix_bytes, wiring)
    return _serialize_and_send(node, topic, wiring)


class _Send(Protocol):
    def __call__(self, key: Any, value: Any, timestamp: int, partitions: Sequence[int] | None = None, /) -> None: ...


def _serialize_and_send(
    node: SinkNode, topic: str, wiring: Wiring, partition_of: Callable[[bytes], int] | None = None
) -> _Send:
    """Returns the closure through which each result leaves a task: it serialises a record once, and sends it to each of
    ``partitions``. Without these, ``partition_of`` chooses the partition by the bytes of the key; without it, or
    without a key, Kafka's default partitioner does.

    Serialises here rather than in a closure of its own: one call more for each record is two per cent of a task's time.
    """
    assert node.key_serde is not None
    assert node.value_serde is not None
    send, context, name, failures = wiring.sender(topic), wiring.context, wiring.name, wiring.context.failures
    key_bytes = node.key_serde.serialize if wiring.undecoded_key is None else None
    value_bytes = node.value_serde.serialize if wiring.undecoded_value is None else None
    refused = _refused(node, topic, wiring)

    def run(key: Any, value: Any, timestamp: int, partitions: Sequence[int] | None = None, /) -> None:
        try:
            raw_key = key if key is None or key_bytes is None else key_bytes(key)
            raw_value = value if value is None or value_bytes is None else value_bytes(value)
        except Exception as error:
            written = refused(error, key, value, timestamp)
            if written is None:
                return
            raw_key, raw_value = written
        try:
            if partitions is not None:
                for partition in partitions:
                    send(topic, raw_key, raw_value, timestamp, context.headers, partition)
            elif partition_of is None or raw_key is None:
                send(topic, raw_key, raw_value, timestamp, context.headers)
            else:
                send(topic, raw_key, raw_value, timestamp, context.headers, partition_of(raw_key))
        except ProductionError as error:
            failures.not_sent(error, name, ProducerRecord(topic, raw_key, raw_value), timestamp)

    return run


def _refused(
    node: SinkNode, topic: str, wiring: Wiring
) -> Callable[[Exception, Any, Any, int], tuple[bytes | None, bytes | None] | None]:
    """Returns the function that decides about a result that a serde has refused. It returns the bytes after all if the
    serde could not answer at first; None if the result is dropped."""
    context = wiring.context
    assert node.key_serde is not None
    assert node.value_serde is not None
    key_bytes = node.key_serde.serialize if wiring.undecoded_key is None else None
    value_bytes = node.value_serde.serialize if wiring.undecoded_value is None else None

    def asked_again(error: RetriableError, key: Any, value: Any) -> tuple[bytes | None, bytes | None]:
        attempt = 1
        while True:
            context.failures.wait(error, attempt)
            try:
                return (
                    key if key is None or key_bytes is None else key_bytes(key),
                    value if value is None or value_bytes is None else value_bytes(value),
                )
            except RetriableError as again:
                error, attempt = again, attempt + 1

    def run(error: Exception, key: Any, value: Any, timestamp: int) -> tuple[bytes | None, bytes | None] | None:
        if isinstance(error, RetriableError):
            try:
                return asked_again(error, key, value)
            except Exception as other:
                error = other
        if is_explained(error):
            raise error
        origin, why = _why(node, wiring, key, value, error)
        key, value = wiring.readable_key(key), wiring.readable_value(value)
        record = ProducerRecord(topic, key, value, timestamp, context.headers or NO_HEADERS)
        context.failures.unserializable(error, why, wiring.name, record, timestamp, origin)
        return None

    return run


def _windowed_sink(node: SinkNode, topic: str, suffix_bytes: int, wiring: Wiring) -> StreamEdge:
    """Records of one key go to one partition, whatever their windows. Mirrors ``WindowedStreamPartitioner``."""
    partitions_of, partitions = wiring.collector.partitions, 0

    def partition_of(raw_key: bytes) -> int:
        nonlocal partitions
        # Asked for once: a producer does not ask the broker again, either.
        partitions = partitions or partitions_of(topic)
        return partition_for(raw_key[:-suffix_bytes], partitions)

    return _serialize_and_send(node, topic, wiring, partition_of)


def _topic_choosing_sink(node: SinkNode, wiring: Wiring) -> StreamEdge:
    """A sink whose topics a user function chooses. A topic is looked up when it is first chosen, and then has a sink of
    its own: without the look-up, its absence would be found only after the producer's time-outs."""
    topic_of, context, name, failed = node.topic, wiring.context, wiring.name, wiring.context.failures.in_operator
    assert not isinstance(topic_of, str)
    sinks: dict[str, StreamEdge] = {}

    def run(key: Any, value: Any, timestamp: int) -> None:
        try:
            chosen = topic_of(key, value, _record_context(wiring, timestamp))
            if chosen not in sinks:
                bound_node = _bound_to(chosen, node)
                wiring.collector.partitions(chosen)
                sinks[chosen] = sink(bound_node, chosen, wiring)
        except MissingTopicError:
            error = ProductionError(_no_such_topic(chosen), key=wiring.readable_key(key))
            context.failures.not_sent(error, name, ProducerRecord(chosen, None, None), timestamp)
        except Exception as error:
            failed(error, name, key, value, timestamp)
            return
        sinks[chosen](key, value, timestamp)

    return run


def _no_such_topic(chosen: str) -> str:
    return (
        f"the function that chooses topics has chosen {chosen!r}, which does not exist: create the topic, or let the "
        "function choose one that exists"
    )


def _bound_to(topic: str, node: SinkNode) -> SinkNode:
    if not isinstance(topic, str):
        raise TypeError(f"the function that chooses topics returned {topic!r}, not the name of one")
    assert node.key_serde is not None
    assert node.value_serde is not None
    key, value = bound(node.key_serde, topic, "key"), bound(node.value_serde, topic, "value")
    return replace(node, topic=topic, key_serde=key, value_serde=value)


def _partitioning_sink(node: SinkNode, topic: str, partitioner: StreamPartitioner, wiring: Wiring) -> StreamEdge:
    """A sink whose partitions a user function chooses."""
    send, partitions_of = _serialize_and_send(node, topic, wiring), wiring.collector.partitions
    context, name, failed = wiring.context, wiring.name, wiring.context.failures.in_operator

    def choose(key: Any, value: Any) -> Sequence[int]:
        partitions = partitions_of(topic)
        chosen = partitioner(topic, key, value, partitions)
        if chosen is None:
            return _DEFAULT
        if type(chosen) is int and 0 <= chosen < partitions:
            return (chosen,)  # nearly always: to ask an abstract class first took as long as the rest
        try:
            several = sorted(set(map(index, chosen))) if isinstance(chosen, Collection) else [index(chosen)]
        except TypeError:
            raise TypeError(
                f"the partitioner of topic {topic} chose {shown_with_type(chosen)}: return the number of a partition, "
                "a collection of several, or None for Kafka's default"
            ) from None
        for partition in several:
            if not 0 <= partition < partitions:
                has = "1 partition" if partitions == 1 else f"{partitions} partitions"
                raise ValueError(f"the partitioner chose {partition}, but topic {topic} has {has}")
        return several

    def run(key: Any, value: Any, timestamp: int) -> None:
        try:
            chosen = choose(key, value)
        except Exception as error:
            failed(error, name, key, value, timestamp)
            return
        if not chosen:
            logger(__name__).warning("Skipping record as partitioner returned empty partitions.", topic=topic)
            context.dropped_records += 1
            return
        send(key, value, timestamp, chosen)

    return run


def _why(
    node: SinkNode, wiring: Wiring, key: Any, value: Any, error: Exception
) -> tuple[SerializationExceptionOrigin, str]:
    """Returns the refused part, and a text that names it, with the serde that refused it and the type that the serde
    takes. Serialises the key again to find out if that is the part."""
    assert node.key_serde is not None
    assert node.value_serde is not None
    option = node.written_by.serdes_in_words if node.written_by else "an option"
    if key is not None and wiring.undecoded_key is None:
        try:
            node.key_serde.serialize(key)
        except Exception as refused:
            why = f"key: {why_refused(node.key_serde, key, refused)}; pass the right serde by {option}"
            return SerializationExceptionOrigin.KEY, why
    why = f"value: {why_refused(node.value_serde, value, error)}; pass the right serde by {option}"
    return SerializationExceptionOrigin.VALUE, why


def _record_context(wiring: Wiring, timestamp: int) -> RecordContext:
    at = wiring.context.metadata()
    return RecordContext(
        topic=at.topic if at else None,
        partition=at.partition if at else None,
        offset=at.offset if at else None,
        timestamp=timestamp,
        headers=wiring.context.headers or NO_HEADERS,
    )
