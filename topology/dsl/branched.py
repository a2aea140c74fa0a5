"""``split``: routing the records of a stream to branches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from penstock.topology.arity import checked_function, takes_key
from penstock.topology.dsl.stream_base import NameLike, StreamHead
from penstock.topology.logical.graph import Operation
from penstock.topology.naming import checked_name
from penstock.topology.physical.operators.stateless import Branch, BranchCase, PassThrough

if TYPE_CHECKING:
    from penstock.topology.dsl.kstream import KStream

K = TypeVar("K")
V = TypeVar("V")
# Factories have type variables of their own: pyright does not infer those of a class in its static methods.
K1 = TypeVar("K1")
V1 = TypeVar("V1")


@dataclass(frozen=True)
class Branched(Generic[K, V]):
    """The name of a branch, and the function or consumer that continues it. Mirrors ``Branched``.

    ``name`` ends the branch's name, which begins with that of ``split``. With a ``function`` of the branch, the result
    of ``split`` has the result of the function in place of the branch (and no entry if that is None); with a
    ``consumer`` it has no entry for the branch.
    """

    name: str | None = None
    function: Callable[[KStream[K, V]], KStream[Any, Any] | None] | None = None
    consumer: Callable[[KStream[K, V]], object] | None = None

    def __post_init__(self) -> None:
        if self.name is not None:
            checked_name(self.name, "name of a branch")
        for what in ("function", "consumer"):
            if (chain := getattr(self, what)) is not None:
                checked_function(chain, f"Branched: {what}", "branch")

    @staticmethod
    def as_(name: str) -> Branched[Any, Any]:
        """Returns options with the end of the branch's name."""
        return Branched(name)

    @staticmethod
    def with_function(
        function: Callable[[KStream[K1, V1]], KStream[Any, Any] | None], name: str | None = None
    ) -> Branched[K1, V1]:
        """Returns options that continue the branch by ``function``: the result of the split has what it returns."""
        return Branched(name, function=function)

    @staticmethod
    def with_consumer(consumer: Callable[[KStream[K1, V1]], object], name: str | None = None) -> Branched[K1, V1]:
        """Returns options that continue the branch by ``consumer``: the result of the split has no entry for it."""
        return Branched(name, consumer=consumer)

    def with_name(self, name: str) -> Branched[K, V]:
        """Returns a copy with a name."""
        return replace(self, name=name)


class BranchedKStream(Generic[K, V]):
    """A stream that is being split. Mirrors ``BranchedKStream``; made by :meth:`KStream.split`.

    Each record goes to the first branch whose predicate holds; if there is none, to the default branch; if there is no
    default branch, it is dropped. End with :meth:`default_branch` or :meth:`no_default_branch`: both return the
    branches by name, which is the name of the split followed by the branch's own or by its number (from 1; the default
    branch is 0).
    """

    def __init__(self, head: StreamHead, named: NameLike | None, stream: type[KStream[K, V]]) -> None:
        self._head = head
        self._stream = stream
        self._name = head.name(named, "KSTREAM-BRANCH-")
        self._cases: list[BranchCase] = []
        self._default: str | None = None
        self._branches: dict[str, KStream[K, V]] = {}
        self._node = Operation(self._name, lambda: Branch(tuple(self._cases), self._default))
        head.graph.add(self._node, head.node)

    @overload
    def branch(
        self, predicate: Callable[[V], bool], branched: Branched[K, V] | None = None
    ) -> BranchedKStream[K, V]: ...
    @overload
    def branch(
        self, predicate: Callable[[K, V], bool], branched: Branched[K, V] | None = None
    ) -> BranchedKStream[K, V]: ...
    def branch(self, predicate: Callable[..., bool], branched: Branched[K, V] | None = None) -> BranchedKStream[K, V]:
        """Add a branch: records for which the predicate is the first to be true. Mirrors ``branch``.

        Called with (value) or (key, value), as in :meth:`KStream.filter`.
        """
        with_key = takes_key(predicate, "branch: predicate", "value", key_if_any_number=True)
        child = self._name_of(how := branched or Branched(), len(self._cases) + 1)
        self._cases.append(BranchCase(child, predicate, with_key))
        self._add(child, how)
        return self

    def default_branch(self, branched: Branched[K, V] | None = None) -> dict[str, KStream[K, V]]:
        """End with a branch for all other records. Mirrors ``defaultBranch``."""
        self._default = self._name_of(how := branched or Branched(), 0)
        self._add(self._default, how)
        return dict(self._branches)

    def no_default_branch(self) -> dict[str, KStream[K, V]]:
        """End without a default branch: all other records are dropped. Mirrors ``noDefaultBranch``."""
        return dict(self._branches)

    def _name_of(self, how: Branched[K, V], number: int) -> str:
        return checked_name(self._name + (str(number) if how.name is None else how.name), "name of a branch")

    def _add(self, name: str, how: Branched[K, V]) -> None:
        # The number is used up although the name holds none, as in Kafka Streams.
        self._head.graph.names.processor(name)
        node = Operation(name, PassThrough)
        self._head.graph.add(node, self._node)
        stream = self._stream(self._head.moved(node))
        if how.consumer is not None:
            how.consumer(stream)
            return
        result = stream if how.function is None else how.function(stream)
        if result is not None:
            self._branches[name] = result
