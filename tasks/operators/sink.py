"""Sinks: the end of a sub-topology."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.common.records import NO_HEADERS
from penstock.common.serdes import bound, why_refused
from penstock.tasks.wiring import StreamEdge, Wiring
from penstock.topology.physical.topology import SinkNode
from penstock.topology.processor import RecordContext


def sink(node: SinkNode, topic: str | None, wiring: Wiring) -> StreamEdge:
    """Serialise and send with the record's timestamp and headers. ``topic`` is None when the node has an extractor."""
    if topic is None or node.partitioner is not None:
        return _choosing_sink(node, topic, wiring)
    send, context, name = wiring.collector.send, wiring.context, wiring.name
    key_bytes, value_bytes = _serializers(node, wiring)

    def run(key: Any, value: Any, timestamp: int) -> None:
        try:
            raw_key = key if key is None or key_bytes is None else key_bytes(key)
            if value is not None and value_bytes is not None:
                value = value_bytes(value)
        except Exception as error:
            context.not_serialized(error, _why(node, wiring, key, value, error), name, topic, wiring.readable_key(key))
        send(topic, raw_key, value, timestamp, context.headers)

    return run


def _serializers(node: SinkNode, wiring: Wiring) -> tuple[Callable[[Any], bytes] | None, Callable[[Any], bytes] | None]:
    assert node.key_serde is not None
    assert node.value_serde is not None
    return (
        None if wiring.raw_key else node.key_serde.serialize,
        None if wiring.raw_value else node.value_serde.serialize,
    )


def _choosing_sink(node: SinkNode, topic: str | None, wiring: Wiring) -> StreamEdge:
    """A sink whose topic or partition a user function chooses for each record."""
    collector, context, name = wiring.collector, wiring.context, wiring.name
    serializers = _SerializersByTopic(node)

    def choose(key: Any, value: Any, timestamp: int) -> tuple[str, int]:
        chosen = topic
        if chosen is None:
            assert not isinstance(node.topic, str)
            chosen = node.topic(key, value, _record_context(wiring, timestamp))
        if node.partitioner is None:
            return chosen, -1
        partitions = collector.partitions(chosen)
        partition = node.partitioner(chosen, key, value, partitions)
        if partition is not None and not 0 <= partition < partitions:
            raise ValueError(f"the partitioner chose {partition}, but topic {chosen} has {partitions} partitions")
        return chosen, -1 if partition is None else partition

    def run(key: Any, value: Any, timestamp: int) -> None:
        try:
            chosen, partition = choose(key, value, timestamp)
            key_bytes, value_bytes = serializers[chosen]
        except Exception as error:
            context.failed(error, name, key)
            return
        try:
            raw_key = None if key is None else key_bytes(key)
            raw_value = None if value is None else value_bytes(value)
        except Exception as error:
            own = serializers.serdes(chosen)
            context.not_serialized(error, _why(own, wiring, key, value, error), name, chosen, key)
            return
        collector.send(chosen, raw_key, raw_value, timestamp, context.headers, partition)

    return run


class _SerializersByTopic(dict[str, tuple[Callable[[Any], bytes], Callable[[Any], bytes]]]):
    """How a sink whose topics a function may choose writes keys and values, bound when a topic is chosen first."""

    def __init__(self, node: SinkNode) -> None:
        super().__init__()
        self._node = node

    def __missing__(self, topic: str) -> tuple[Callable[[Any], bytes], Callable[[Any], bytes]]:
        own = self.serdes(topic)
        assert own.key_serde is not None
        assert own.value_serde is not None
        made = self[topic] = own.key_serde.serialize, own.value_serde.serialize
        return made

    def serdes(self, topic: str) -> SinkNode:
        """The sink, with serdes that are bound to ``topic``."""
        node = self._node
        assert node.key_serde is not None
        assert node.value_serde is not None
        if isinstance(node.topic, str):
            return node
        key, value = bound(node.key_serde, topic, "key"), bound(node.value_serde, topic, "value")
        return replace(node, key_serde=key, value_serde=value)


def _why(node: SinkNode, wiring: Wiring, key: Any, value: Any, error: Exception) -> str:
    """Which of the two was refused, by which serde, and what the serde takes; tried anew, for this is the end."""
    assert node.key_serde is not None
    assert node.value_serde is not None
    option = f"{node.written_by.option}.with_(...)" if node.written_by else "an option"
    if key is not None and not wiring.raw_key:
        try:
            node.key_serde.serialize(key)
        except Exception as refused:
            return f"key: {why_refused(node.key_serde, key, refused)}; pass the right serde by {option}"
    return f"value: {why_refused(node.value_serde, value, error)}; pass the right serde by {option}"


def _record_context(wiring: Wiring, timestamp: int) -> RecordContext:
    at = wiring.context.metadata()
    return RecordContext(
        topic=at.topic if at else None,
        partition=at.partition if at else None,
        offset=at.offset if at else None,
        timestamp=timestamp,
        headers=wiring.context.headers or NO_HEADERS,
    )
