"""Names of nodes and stores: one counter per builder, as in Kafka Streams, because internal topics are named by it.

A name that the user gives still uses up its number (if Kafka Streams does so), so that naming one operator does not
rename the others.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from penstock.common.errors import TopologyError

STORE_INFIX = "STATE-STORE-"
REPARTITION_SUFFIX = "-repartition"
MAX_NAME_LENGTH = 249

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_GENERATED = re.compile(r"KSTREAM.*-[0-9]{10}")


def checked_name(name: str, what: str = "name") -> str:
    """Returns ``name``, which may go into a topic's name. Raises TopologyError if Kafka would not take it."""
    if not isinstance(name, str):
        read = ": only streams (StreamsBuilder.stream, Topology.add_source) are read by a pattern"
        hint = read if isinstance(name, re.Pattern) else ""
        raise TopologyError(f"{what} must be a string, not {name!r}{hint}")
    if not name or name in (".", "..") or len(name) > MAX_NAME_LENGTH or not _LEGAL.fullmatch(name):
        raise TopologyError(
            f"illegal {what} {name!r}: use 1 to {MAX_NAME_LENGTH} ASCII letters, digits, '.', '_' or '-' "
            "(and neither '.' nor '..' alone)"
        )
    return name


def checked_topics(topics: str | Collection[str]) -> tuple[str, ...]:
    """Returns one topic or several, each legal, without repetition. Raises TopologyError otherwise."""
    if not isinstance(topics, str | Collection) or isinstance(topics, bytes):
        raise TopologyError(f"a topic is a name of text, or several of them, not {topics!r}")
    names = (topics,) if isinstance(topics, str) else tuple(dict.fromkeys(topics))
    if not names:
        raise TopologyError("a source needs at least one topic: the collection of topics is empty")
    return tuple(checked_name(name, "topic") for name in names)


def looks_generated(name: str) -> bool:
    """Returns True if ``name`` has the form of generated ones; if not, a repartition's nodes are named after it, as in
    Kafka Streams. :meth:`NameFactory.is_generated` returns True if it really was generated."""
    return _GENERATED.fullmatch(name) is not None


class NameFactory:
    """The counter of one builder."""

    def __init__(self, index: int = 0) -> None:
        self._index = index
        self._generated: set[str] = set()

    def copy(self) -> NameFactory:
        """Returns a counter that continues from here without moving this one."""
        factory = NameFactory(self._index)
        factory._generated.update(self._generated)
        return factory

    def is_generated(self, name: str) -> bool:
        """Returns True if ``name``, of a store or a topic, was generated here, or is a generated one with a suffix."""
        parts = name.split("-")
        return any("-".join(parts[:count]) in self._generated for count in range(2, len(parts) + 1))

    def processor(self, prefix: str) -> str:
        """Returns the next name of a node: ``prefix`` and ten digits."""
        name = f"{prefix}{self._index:010d}"
        self._index += 1
        self._generated.add(name)
        return name

    def derived(self, name: str) -> str:
        """Returns ``name``, which was made of a generated one and counts as generated, too."""
        self._generated.add(name)
        return name

    def store(self, prefix: str) -> str:
        """Returns the next name of a store: ``prefix``, ``STATE-STORE-`` and ten digits."""
        return self.processor(prefix + STORE_INFIX)

    def processor_or(self, given: str | None, prefix: str, suffix: str = "") -> str:
        """Returns ``given`` with ``suffix``, or the next name; either way one number is used up."""
        if given is None:
            return self.processor(prefix)
        self._index += 1
        return checked_name(given + suffix)
