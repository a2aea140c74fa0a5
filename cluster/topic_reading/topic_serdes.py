"""Finds the serdes that an application uses for a topic, so that its records can be shown: topics of users, repartition
topics, changelogs, and the topics of foreign-key joins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, NamedTuple

from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError, SerializationError
from penstock.common.serdes import Serde, Serdes
from penstock.common.shown import similar_to
from penstock.common.windows import Windowed
from penstock.state.buffers.buffered_change import BufferedChangeCodec
from penstock.state.buffers.change_buffer import ChangeBufferBuilder
from penstock.state.builders import AnyStoreBuilder
from penstock.state.key_value.outer_join_store import OuterJoinStoreBuilder
from penstock.state.versioned.join_buffer import JoinBufferBuilder
from penstock.state.windowed.deduplication_store import DeduplicationStoreBuilder, unpack_seen
from penstock.state.windowed.expiring_store import ExpiringStoreBuilder
from penstock.state.windowed.window_store import WindowStoreBuilder
from penstock.tasks.operators.subscriptions import prefix_of, primary_key
from penstock.tasks.program import TaskProgram, source_topic
from penstock.topology.physical.operators.foreign_key import ForeignKeySerdes, SubscriptionReceive
from penstock.topology.physical.topology import ProcessorNode, SinkNode, Topology, internal_topic

_INSTRUCTIONS = ("forget", "forget and answer", "answer", "answer if there")
_NO_HASH = 0x80
_HASH_BYTES = 16
_TIME_AND_SIDE = Struct(">q?")
_COUNT = Struct(">?i")
_LENGTH = Struct(">i")


class TopicSerdes(NamedTuple):
    """The serdes of the keys and of the values in a topic; ``use`` is the topic's use in the application."""

    key: Serde[Any]
    value: Serde[Any]
    use: str = ""


class KnownTopics:
    """The topics that a program reads and writes, by their names in Kafka. Raises what :meth:`TaskProgram.of` does."""

    def __init__(self, topology: Topology, config: StreamsConfig) -> None:
        self._programs = [TaskProgram.of([sub], config) for sub in topology.every_subtopology]
        self.by_name: dict[str, TopicSerdes] = {}
        for name, found in _all(self._programs, config):
            self.by_name.setdefault(name, found)

    @property
    def uses(self) -> dict[str, str]:
        """The use of each topic."""
        return {topic: found.use for topic, found in self.by_name.items()}

    def find(self, topic: str) -> TopicSerdes | None:
        """Returns the serdes of a topic, also of one that matches the pattern of a source; None if the program neither
        reads nor writes it."""
        if topic in self.by_name:
            return self.by_name[topic]
        for program in self._programs:
            if (source := source_topic(program, topic)) is not None:
                return TopicSerdes(source.key_serde, source.value_serde, f"read by {source.node}")
        return None


def topic_serdes(topology: Topology, config: StreamsConfig, topic: str) -> TopicSerdes:
    """Returns the serdes with which a program reads ``topic``, or if it does not read it, writes it. They are bound to
    the topic. Raises ConfigError, which names the topics that the application has."""
    topics = KnownTopics(topology, config)
    if (found := topics.find(topic)) is not None:
        return found
    if topic == config.errors_dead_letter_queue_topic_name:
        raise ConfigError(
            f"topic {topic!r} holds the dead letters of application {config.application_id!r}, which have no serde of "
            f"their own: 'penstock dlq show {topic} --app …' decodes them, and '--value bytes' without --app reads them"
        )
    similar = similar_to(topic, topics.by_name)
    raise ConfigError(
        f"application {config.application_id!r} neither reads nor writes topic {topic!r}{similar}: its topics are "
        f"{', '.join(sorted(topics.by_name))}"
    )


def _all(programs: list[TaskProgram], config: StreamsConfig) -> Iterator[tuple[str, TopicSerdes]]:
    """Yields the topics with their serdes. If a topic comes twice, the first counts."""
    for program in programs:
        for node in program.nodes:
            if isinstance(node, ProcessorNode) and isinstance(node.operator, SubscriptionReceive):
                yield from _of_foreign_keys(node.operator.serdes, config)
    for program in programs:
        for topic, source in program.sources.items():
            yield topic, TopicSerdes(source.key_serde, source.value_serde, f"read by {source.node}")
    for program in programs:
        for name, log in program.changelogs.items():
            if not log.is_source_topic:
                yield log.topic, _of_changelog(program.stores[name], program)
        for node in program.nodes:
            if isinstance(node, SinkNode) and isinstance(node.topic, str) and node.key_serde and node.value_serde:
                yield node.topic, TopicSerdes(node.key_serde, node.value_serde, f"written by {node.name}")


def _reader(name: str, read: Callable[[bytes], Any]) -> Serde[Any]:
    return Serde(name, _never_written, read)


def _never_written(value: Any) -> bytes:
    raise SerializationError("records of an internal topic are only read here")


# ---- foreign-key joins ----


def _of_foreign_keys(serdes: ForeignKeySerdes, config: StreamsConfig) -> Iterator[tuple[str, TopicSerdes]]:
    foreign, primary, right = _known(serdes.foreign_key), _known(serdes.primary_key), _known(serdes.right_value)
    subscription = _reader("subscription", lambda data: _subscription(data, primary))
    response = _reader("response", lambda data: _response(data, right))
    registration = internal_topic(config.application_id, serdes.registration)
    yield registration, TopicSerdes(foreign, subscription, "subscriptions of a foreign-key join")
    answers = internal_topic(config.application_id, serdes.response)
    yield answers, TopicSerdes(_known(serdes.response_key), response, "responses of a foreign-key join")


def _known(serde: Serde[Any] | None) -> Serde[Any]:
    return Serdes.bytes() if serde is None else serde


def _subscription(data: bytes, primary: Serde[Any]) -> dict[str, Any]:
    instruction = data[1]
    known = _INSTRUCTIONS[instruction] if instruction < len(_INSTRUCTIONS) else instruction
    hashed = None if data[0] & _NO_HASH else data[2 : 2 + _HASH_BYTES].hex()
    return {"primary_key": primary.deserialize(primary_key(data)), "instruction": known, "hash": hashed}


def _response(data: bytes, right: Serde[Any]) -> dict[str, Any]:
    begin = 1 if data[0] & _NO_HASH else 1 + _HASH_BYTES
    value = right.deserialize(data[begin:]) if len(data) > begin else None
    return {"value": value, "hash": data[1:begin].hex() or None}


# ---- changelogs ----


def _of_changelog(store: AnyStoreBuilder, program: TaskProgram) -> TopicSerdes:
    use = f"changelog of store {store.name} ({store.kind})"
    key, value = _known(store.key_serde), _known(store.value_serde)
    match store:
        case DeduplicationStoreBuilder():
            seen = _reader("first seen", lambda data: unpack_seen(data)._asdict())
            return TopicSerdes(_windowed(store, _known(None) if store.by_id else key), seen, use)
        case ExpiringStoreBuilder():
            return TopicSerdes(_windowed(store, key), value, use)
        case ChangeBufferBuilder():
            return TopicSerdes(key, _changes(store.name, value), use)
        case JoinBufferBuilder():
            return TopicSerdes(
                _reader("time and key", lambda data: _time_first(data, key)), _changes(store.name, value), use
            )
        case OuterJoinStoreBuilder():
            left, right = _known(store.left_serde), _known(store.right_serde)
            sides = _reader("time, side and key", lambda data: _time_and_side(data, key))
            return TopicSerdes(sides, _reader("waiting records", lambda data: list(_waiting(data, left, right))), use)
        case _ if (joined := _subscribed(store, program)) is not None:
            foreign, primary = _known(joined.foreign_key), _known(joined.primary_key)
            both = _reader("foreign and primary key", lambda data: _two_keys(data, foreign, primary))
            return TopicSerdes(both, _reader("subscription", lambda data: _subscription(data, primary)), use)
        case _:
            return TopicSerdes(key, value, use)


def _subscribed(store: AnyStoreBuilder, program: TaskProgram) -> ForeignKeySerdes | None:
    """Returns the serdes of the foreign-key join whose subscriptions the store keeps, or None."""
    operators = (node.operator for node in program.nodes if isinstance(node, ProcessorNode))
    receivers = (each for each in operators if isinstance(each, SubscriptionReceive))
    return next((each.serdes for each in receivers if each.store == store.name), None)


def _windowed(store: ExpiringStoreBuilder[Any, Any], key: Serde[Any]) -> Serde[Any]:
    schema = store.schema
    numbered = isinstance(store, WindowStoreBuilder) and store.retain_duplicates

    def read(data: bytes) -> Any:
        found = Windowed(key.deserialize(data[: len(data) - schema.suffix_bytes]), schema.window(data))
        return {**found._asdict(), "sequence": schema.sequence(data)} if numbered else found

    return _reader(f"windowed {key.name}", read)


def _changes(name: str, value: Serde[Any]) -> Serde[Any]:
    codec = BufferedChangeCodec(name, value)

    def read(data: bytes) -> dict[str, Any]:
        time, prior, old, new, timestamp, _, source, offset, _ = codec.decode(data)
        place = None if source is None else f"{source.topic}:{source.partition}:{offset}"
        return {"new": new, "old": old, "prior": prior, "time": time, "timestamp": timestamp, "source": place}

    return _reader(f"waiting {value.name}", read)


def _time_first(data: bytes, key: Serde[Any]) -> dict[str, Any]:
    time, sequence = int.from_bytes(data[1:9], "big"), int.from_bytes(data[-4:], "big")
    return {"key": key.deserialize(data[9:-4]), "time": time, "sequence": sequence}


def _time_and_side(data: bytes, key: Serde[Any]) -> dict[str, Any]:
    time, is_left = _TIME_AND_SIDE.unpack_from(data)
    side = "left" if is_left else "right"
    return {"key": key.deserialize(data[_TIME_AND_SIDE.size :]), "side": side, "time": time}


def _waiting(data: bytes, left: Serde[Any], right: Serde[Any]) -> Iterator[Any]:
    at = _COUNT.size
    for _ in range(_COUNT.unpack_from(data)[1]):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        serde = left if data[at] else right
        yield serde.deserialize(data[at + 1 : at + length])
        at += length


def _two_keys(data: bytes, foreign: Serde[Any], primary: Serde[Any]) -> dict[str, Any]:
    front = prefix_of(data)
    return {
        "foreign_key": foreign.deserialize(front[_LENGTH.size :]),
        "primary_key": primary.deserialize(data[len(front) :]),
    }
