"""Describes an application to the harness: what runs, what it is fed, and what must hold at the end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol

from penstock.topology.physical.topology import Topology


class Guarantee(Enum):
    """``processing.guarantee``."""

    AT_LEAST = "at_least_once"
    EXACTLY = "exactly_once_v2"


class Written(NamedTuple):
    """A record to be written to a topic; ``timestamp`` in ms, partition −1 is Kafka's default (murmur2 of the key)."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    partition: int = -1


class AtRest(Protocol):
    """The application as :meth:`Program.check` sees it: it still runs, and has nothing left to do."""

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee under which it ran."""

    def internal(self, name: str) -> str:
        """Returns the full name of an internal topic, such as ``counts-changelog``."""

    def read(self, topic: str) -> Iterator[tuple[bytes, bytes | None]]:
        """Yields keys and values of a whole topic, committed ones alone, in order within each partition."""

    def rows(self, store: str) -> Mapping[Any, Any]:
        """Returns keys and values of a key-value store, committed ones alone, as its HTTP server gives them."""


class Program(ABC):
    """An application to be hurt, with a check that it was not harmed.

    The harness creates ``topics``, runs :meth:`topology`, writes a fifth of the ``rounds`` at once and the others while
    faults happen, waits until all of it is processed and committed, and asks :meth:`check`. Whatever the program is,
    the harness checks that the application comes to rest and ends cleanly, that every store on disk, active or
    standby, is what its changelog makes, and exactly once that no transaction stays open.

    Input whose right result is known without a second run makes the best programs: let records number themselves.
    """

    topics: Mapping[str, int]
    """The topics that it reads and writes, with their partitions, except internal ones."""
    rounds: int
    """Number of calls of :meth:`round`, with 0, 1, 2 …"""
    config: Mapping[str, Any] = {}
    """Kafka Streams' keys for it. Not those that the harness sets itself: ids, addresses, the guarantee."""
    counting_up: tuple[str, Sequence[str]] | None = None
    """A key-value store of numbers that never get smaller, and keys of it: asked for over HTTP all through the run. A
    committed number must never go back, and no request may get an error except 503."""

    @abstractmethod
    def topology(self) -> Topology:
        """Returns what runs. Its functions are pickled, so they must be importable, or defined in ``__main__``."""

    @abstractmethod
    def round(self, number: int) -> Iterable[Written]:
        """Returns the input records of one round."""

    @abstractmethod
    def check(self, at_rest: AtRest) -> Iterable[str]:
        """Returns what is wrong, a sentence each, or nothing. At least once, records may be processed again."""

    def poison(self) -> Sequence[Written]:
        """Returns records that ``deserialization.exception.handler`` drops: written now and then, and again at rest,
        where ``dropped-records-total`` must then grow by as many. None by default."""
        return ()
