"""The position of a store: which records of its topics it has seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from penstock.common.shown import shown_with_type

_LARGEST_PARTITION = (1 << 31) - 1
_LARGEST_OFFSET = (1 << 63) - 1


class Position:
    """Per topic and partition the offset of the last record that was seen. Mirrors ``Position`` (KIP-796).

    It is a value: methods that change it return another one. The topics are those that the store's sub-topology reads,
    both the program's and internal ones.
    """

    __slots__ = ("_offsets",)

    def __init__(self, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """``offsets`` by topic and partition. It is not copied: do not change it afterwards."""
        self._offsets = offsets

    @classmethod
    def empty_position(cls) -> Self:
        """Returns the position at which nothing was seen."""
        return cls({})

    @classmethod
    def from_map(cls, offsets: Mapping[str, Mapping[int, int]]) -> Self:
        """Returns the position with these offsets, by topic and partition."""
        return cls({topic: dict(partitions) for topic, partitions in offsets.items()})

    @classmethod
    def of(cls, offsets: Iterable[tuple[tuple[str, int], int]]) -> Self:
        """Returns the position with these offsets, as ((topic, partition), offset)."""
        found: dict[str, dict[int, int]] = {}
        for (topic, partition), offset in offsets:
            found.setdefault(topic, {})[partition] = offset
        return cls(found)

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Returns the position that an answer over HTTP has as ``position``: offsets by topic and by partition, as
        text. Raises ValueError for anything else."""
        if not isinstance(value, dict):
            raise ValueError(f"a position is an object of topics, such as {_EXAMPLE}")
        return cls({_topic(topic): _partitions(topic, partitions) for topic, partitions in value.items()})

    def with_component(self, topic: str, partition: int, offset: int) -> Self:
        """Returns the position with this offset, in place of the one that it has for the partition, if any."""
        return type(self)({**self._offsets, topic: {**self._offsets.get(topic, {}), partition: offset}})

    def merge(self, other: Position) -> Self:
        """Returns the position of all records that either has seen: for each partition the larger offset."""
        found = {topic: dict(partitions) for topic, partitions in self._offsets.items()}
        for topic, partition, offset in other:
            known = found.setdefault(topic, {})
            known[partition] = max(offset, known.get(partition, offset))
        return type(self)(found)

    def get_topics(self) -> set[str]:
        """Returns the topics of which records were seen."""
        return set(self._offsets)

    def get_partition_positions(self, topic: str) -> Mapping[int, int]:
        """Returns the offsets of ``topic`` by partition."""
        return self._offsets.get(topic, {})

    @property
    def offsets(self) -> Mapping[str, Mapping[int, int]]:
        """The offsets by topic and partition."""
        return self._offsets

    def reaches(self, other: Position) -> bool:
        """Returns True if this position has seen all records that ``other`` has seen."""
        return all(self.get_partition_positions(topic).get(number, -1) >= offset for topic, number, offset in other)

    def __iter__(self) -> Iterator[tuple[str, int, int]]:
        """Yields (topic, partition, offset)."""
        for topic, partitions in self._offsets.items():
            for partition, offset in partitions.items():
                yield topic, partition, offset

    def __bool__(self) -> bool:
        return any(self._offsets.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Position) and sorted(self) == sorted(other)

    def __hash__(self) -> int:
        return hash(frozenset(self))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._offsets,)

    def __repr__(self) -> str:
        return f"Position({ {topic: dict(partitions) for topic, partitions in self._offsets.items()} })"


NOWHERE = Position.empty_position()

_EXAMPLE = '{"lines": {"0": 17}}'


def _topic(topic: Any) -> str:
    if not topic:
        raise ValueError("a topic has no name")
    return str(topic)


def _partitions(topic: str, partitions: Any) -> dict[int, int]:
    if not isinstance(partitions, dict):
        raise ValueError(f"topic {topic!r}: offsets must be keyed by partition, as in {_EXAMPLE}")
    found = {}
    for number, offset in partitions.items():
        if not (isinstance(number, str) and number.isascii() and number.isdigit()) or len(number) > len("2147483647"):
            raise ValueError(f"topic {topic!r}: {str(number)[:20]!r} is not a partition")
        if type(offset) is not int or not 0 <= offset <= _LARGEST_OFFSET or int(number) > _LARGEST_PARTITION:
            raise ValueError(f"topic {topic!r}: partition {number}: {str(offset)[:20]!r} is not an offset")
        found[int(number)] = offset
    return found


@dataclass(frozen=True)
class PositionBound:
    """A position that an answer must not be older than. Mirrors ``PositionBound`` (KIP-796)."""

    position: Position

    @classmethod
    def unbounded(cls) -> Self:
        """Returns the bound that any answer meets."""
        return cls(Position.empty_position())

    @classmethod
    def at(cls, position: Position) -> Self:
        """Returns the bound of this position: it, or a later one. Raises TypeError if it is not a Position."""
        if not isinstance(position, Position):
            raise TypeError(f"PositionBound.at needs a Position, as answers have it, not {shown_with_type(position)}")
        return cls(position)

    @property
    def is_unbounded(self) -> bool:
        """True if any answer meets the bound."""
        return not self.position
