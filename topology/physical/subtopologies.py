"""Cuts a topology into sub-topologies: nodes that share an edge or a store belong together."""

from __future__ import annotations

from collections.abc import Iterable


class NodeGroups:
    """Union-find over the names of nodes.

    Groups are numbered in the order in which their first node was added. Task ids and state directories hold these
    numbers, so they must be Kafka Streams'.
    """

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def add(self, name: str) -> None:
        """Add a node, in a group of its own."""
        self._parents[name] = name

    def unite(self, name: str, others: Iterable[str]) -> None:
        """Put ``name`` and each of ``others`` into one group."""
        for other in others:
            self._parents[self._root(name)] = self._root(other)

    def numbered(self) -> list[list[str]]:
        """Returns the groups: the index of each is its sub-topology's id, its nodes are in the order of addition."""
        groups: dict[str, list[str]] = {}
        for name in self._parents:
            groups.setdefault(self._root(name), []).append(name)
        return list(groups.values())

    def _root(self, name: str) -> str:
        while (parent := self._parents[name]) != name:
            self._parents[name] = self._parents[parent]
            name = parent
        return name
