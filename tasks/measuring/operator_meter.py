"""Times the operators of one task, and counts the records that enter each, during measured runs.

Between two measured runs nothing of it is in the way of a record: timed edges take the places of the plain ones when a
run begins, and give them back when it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.tasks.measuring.edge_slots import slots_of

Edge = Callable[..., Any]

MOST_DEEP = 100
"""Longest chain of operators that is measured: each timed edge takes a frame more of the interpreter's stack."""
_TRIES, _LONG, _CALLS = 7, 5, 50
"""For the calibration: tries, edges in a chain, calls of each."""


@dataclass(frozen=True)
class Overhead:
    """Seconds by which a timed edge lengthens a call: ``inside`` what it measures, ``around`` it outside of that."""

    inside_s: float = 0.0
    around_s: float = 0.0

    @property
    def total_s(self) -> float:
        """Seconds that one timed edge costs."""
        return self.inside_s + self.around_s


class NodeTime:
    """The calls into one node, and the seconds that it took itself: without those of the nodes that it called."""

    __slots__ = ("calls", "self_s")

    def __init__(self) -> None:
        self.calls = 0
        self.self_s = 0.0


class RunEnd(NamedTuple):
    """Seconds of a measured run in no node, those by which measuring has made it longer until its end, and all those
    that measuring has cost."""

    in_no_node_s: float
    longer_s: float
    cost_s: float


class OperatorMeter:
    """The timed edges of one task. ``now_s``: a clock that never runs backwards."""

    def __init__(self, now_s: Callable[[], float], overhead: Overhead) -> None:
        self._now_s = now_s
        self._overhead = overhead
        self._inner_s = 0.0
        """Seconds of the nodes that the node at work has called, with what measuring them has cost."""
        self._begun_s = self._swapping_s = 0.0
        self._swaps: list[tuple[Callable[[Edge], None], Edge, Edge]] = []
        """Of each place: the function that fills it, the timed edge, the plain edge."""
        self._timed_edges: dict[str, Edge] = {}
        self._edges: Mapping[str, Edge] = {}
        self._more = 0
        self.nodes: dict[str, NodeTime] = {}
        """By node, its calls and seconds of the run that was measured last."""
        self.running = False
        """True during a measured run."""

    def connect(self, edges: Mapping[str, Edge], passes_to: Mapping[str, str], roots: Iterable[object]) -> None:
        """Take the places of ``edges`` that ``roots`` and the edges themselves lead to.

        Children come before their parents. ``passes_to``: the child of each node that does nothing but call it.
        """
        self._edges = edges
        for node, edge in edges.items():
            child = passes_to.get(node)
            self._timed_edges[node] = self._timed(node, edge if child is None else self._timed_edges[child])
        self._take([*roots, *edges.values()])

    def connect_source(self, node: str, head: Edge, put: Callable[[Edge], None]) -> None:
        """Take the place of the ``head`` of a source, which calls all its children."""
        child = next((child for child, edge in self._edges.items() if edge is head), None)
        self._take([head])
        self.swap(put, self._timed(node, head if child is None else self._timed_edges[child]), head)

    def _take(self, roots: Iterable[object]) -> None:
        for slot in slots_of(roots, self._edges):
            self.swap(slot.put, self._timed_edges[slot.node], slot.edge)

    def swap(self, put: Callable[[Edge], None], timed: Edge, plain: Edge) -> None:
        """Have ``put`` called with ``timed`` when a measured run begins, and with ``plain`` when it ends."""
        self._swaps.append((put, timed, plain))

    def within(self, node: str, function: Edge) -> Edge:
        """Returns ``function`` with its time counted as that of ``node``, and without a record that enters. Call it
        only during a measured run."""
        timed, figures = self._timed(node, function), self.nodes[node]

        def run(*args: object) -> None:
            figures.calls -= 1
            self._more += 1
            timed(*args)

        return run

    @property
    def knows_edges(self) -> bool:
        """True if it was connected with the edges of a task."""
        return bool(self._edges)

    @property
    def connected(self) -> bool:
        """True if runs can be measured."""
        return bool(self._swaps)

    def begin(self) -> None:
        """Begin a measured run."""
        self._swapping_s = -self._now_s()
        for put, timed, _ in self._swaps:
            put(timed)
        for figures in self.nodes.values():
            figures.calls, figures.self_s = 0, 0.0
        self.running, self._inner_s, self._more = True, 0.0, 0
        self._begun_s = self._now_s()
        self._swapping_s += self._begun_s

    def end(self) -> RunEnd:
        """End the measured run, also after an error."""
        ended_s, self.running = self._now_s(), False
        timings = self._more + sum([figures.calls for figures in self.nodes.values()])
        for put, _, plain in self._swaps:
            put(plain)
        longer_s = self._swapping_s + self._overhead.total_s * timings
        in_no_node_s = max(0.0, ended_s - self._begun_s - self._inner_s)
        return RunEnd(in_no_node_s, longer_s, longer_s + self._now_s() - ended_s)

    def _timed(self, node: str, edge: Edge) -> Edge:
        now_s, inside_s, around_s = self._now_s, self._overhead.inside_s, self._overhead.around_s
        figures = self.nodes.setdefault(node, NodeTime())

        def timed(*args: object) -> None:
            before_s, self._inner_s = self._inner_s, 0.0
            begun_s = now_s()
            try:
                edge(*args)
            finally:
                spent_s = now_s() - begun_s
                figures.calls += 1
                figures.self_s += spent_s - self._inner_s - inside_s
                self._inner_s = before_s + spent_s + around_s

        return timed


def calibrated(now_s: Callable[[], float]) -> Overhead:
    """Returns the overhead of a timed edge on this machine, in less than 2 ms: the median of some tries.

    Each try is a chain of plain edges that becomes a measured run, as in a task: at the first calls the interpreter is
    prepared for the plain edges.
    """
    tries = [_try(now_s) for _ in range(_TRIES)]
    inside_s = sorted(each.inside_s for each in tries)[_TRIES // 2]
    return Overhead(inside_s, sorted(each.around_s for each in tries)[_TRIES // 2])


def _try(now_s: Callable[[], float]) -> Overhead:
    meter, edges = OperatorMeter(now_s, Overhead()), _chain()
    meter.connect(edges, {}, ())
    head = next(reversed(edges.values()))
    plain_s = min(_seconds_of(head, now_s), _seconds_of(head, now_s))
    meter.begin()
    timed_s = _seconds_of(head, now_s)
    meter.end()
    edge_s = plain_s / (_LONG * _CALLS)
    total_s = (timed_s - plain_s) / ((_LONG - 1) * _CALLS)  # nothing has replaced the first of them
    inside_s = meter.nodes["0"].self_s / _CALLS - edge_s
    return Overhead(max(0.0, min(inside_s, total_s)), max(0.0, total_s - max(0.0, inside_s)))


def _chain() -> dict[str, Edge]:
    """Returns edges each of which calls the one before it."""

    def last(key: object, value: object, timestamp: int) -> None:
        pass

    def before(forward: Edge) -> Edge:
        def run(key: object, value: object, timestamp: int) -> None:
            forward(key, value, timestamp)

        return run

    edges: dict[str, Edge] = {"0": last}
    for number in range(1, _LONG):
        edges[str(number)] = before(edges[str(number - 1)])
    return edges


def _seconds_of(edge: Edge, now_s: Callable[[], float]) -> float:
    begun_s = now_s()
    for _ in range(_CALLS):
        edge(None, None, 0)
    return now_s() - begun_s
