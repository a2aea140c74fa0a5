"""Versioned stores as a processor sees them."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, NamedTuple, Protocol

from typing_extensions import TypeVar

from penstock.state.versioned.latest_buffer import NOT_PUT, VALID_TO_UNDEFINED

K = TypeVar("K", contravariant=True)
V = TypeVar("V")
T = TypeVar("T", default=Any)


class VersionedRecord(NamedTuple, Generic[T]):
    """A value of a versioned store, valid from ``timestamp`` (ms) until ``valid_to``. Mirrors ``VersionedRecord``.

    ``valid_to`` is the timestamp of the version that replaced or deleted it; None: it is the latest of its key.
    """

    value: T
    timestamp: int
    valid_to: int | None = None


class VersionedKeyValueStore(Protocol[K, V]):
    """A versioned store as a processor sees it: the values of a key, each from one timestamp on until the next.
    Mirrors ``VersionedKeyValueStore``.

    All times are ms since 1970. A key has one value at a timestamp: a second ``put`` there replaces the first.

    **History.** The store's *observed stream time* is the largest timestamp it was ever given, in this run or before.
    It can be queried, and takes versions, as far back from that time as its history retention. An older version that is
    put is dropped, logged, and counted by the metric ``dropped-records``; only the changelog still gets it. The latest
    version of a key does not expire.

    Keys may not be None. Until the commit a store holds the objects themselves. So an object that it returned, or that
    was put into it, must not be changed: put a new object instead (docs/PROGRAMS.md).
    """

    PUT_RETURN_CODE_VALID_TO_UNDEFINED: ClassVar[int] = VALID_TO_UNDEFINED
    """Returned by ``put`` for a version that is the latest of its key."""
    PUT_RETURN_CODE_NOT_PUT: ClassVar[int] = NOT_PUT
    """Returned by ``put`` for a version that is too late."""

    name: str

    def put(self, key: K, value: V | None, timestamp: int) -> int:
        """Set the value of ``key`` from ``timestamp`` on, or delete it from then on with None.

        Returns the end of this version: the timestamp of the next one, ``PUT_RETURN_CODE_VALID_TO_UNDEFINED`` (−1) if
        there is none, ``PUT_RETURN_CODE_NOT_PUT`` (−2⁶³) if it was too late and not put. Raises ValueError for a
        negative timestamp.
        """

    def get(self, key: K, as_of_timestamp: int | None = None) -> VersionedRecord[V] | None:
        """The latest version of ``key``, or the one that is valid at ``as_of_timestamp``, which is the last that begins
        at or before it.

        None if there was no value, or if the timestamp is before the history that is kept, unless the latest version is
        that old.
        """

    def delete(self, key: K, timestamp: int) -> VersionedRecord[V] | None:
        """Put None. Returns the version that was valid at ``timestamp`` before; None if the put was too late."""
