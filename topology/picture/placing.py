"""Horizontal positions: each vertex as close to its neighbours as its layer's order and the boxes beside it permit."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from penstock.topology.picture.network import Network, Vertex

_SWEEPS, _LEAST_SWEEPS = 24, 4
_WORK = 40_000
"""Number of vertices times sweeps, which bounds the time that a large network takes."""
_TURN = 40
"""Pixels up to which two ends of links are rather put straight."""
_BETWEEN_BOXES, _BESIDE_DUMMIES = 28, 16


@dataclass
class _Run:
    """Consecutive vertices of a layer that touch: ``wanted`` are the positions that they want for its first one, each
    with a weight."""

    wanted: list[tuple[int, int]]
    length: int
    at: int


def place(network: Network) -> list[int]:
    """Returns the left side of each vertex. The smallest is 0."""
    lefts = [0] * len(network.vertices)
    for layer in network.layers:
        at = 0
        for one, other in pairwise([*layer, None]):
            assert one is not None
            lefts[one] = at
            at += _distance(network, one, other)
    sweeps = max(_LEAST_SWEEPS, min(_SWEEPS, _WORK // (len(lefts) + 1)))
    for sweep in range(sweeps):
        upwards = sweep % 2 == 1
        both = sweep >= sweeps // 2
        for layer in reversed(network.layers) if upwards else network.layers:
            _align(network, layer, lefts, up=both or not upwards, down=both or upwards)
    least = min(lefts, default=0)
    return [each - least for each in lefts]


def _distance(network: Network, one: int, other: int | None) -> int:
    """Returns the distance from the left side of a vertex to that of the next one."""
    left = network.vertices[one]
    dummies = other is None or left.item is None or network.vertices[other].item is None
    return left.width + (_BESIDE_DUMMIES if dummies else _BETWEEN_BOXES)


def _align(network: Network, layer: list[int], lefts: list[int], up: bool, down: bool) -> None:
    """Move the vertices of a layer as close to what they want as their order permits: in the sum of distances, which
    keeps most of them exactly there. Runs that would overlap become one (pool adjacent violators)."""
    runs: list[_Run] = []
    offset = 0
    offsets: list[int] = []
    for each, following in pairwise([*layer, None]):
        assert each is not None
        wanted = _wanted(network.vertices[each], lefts, up, down) or [(lefts[each], 1)]
        run = _Run([(position - offset, weight) for position, weight in wanted], 1, 0)
        run.at = _middle(run.wanted)
        while runs and runs[-1].at >= run.at:
            before = runs.pop()
            run = _Run(sorted(before.wanted + run.wanted), before.length + run.length, 0)
            run.at = _middle(run.wanted)
        runs.append(run)
        offsets.append(offset)
        offset += _distance(network, each, following)
    at = 0
    for run in runs:
        for each in layer[at : at + run.length]:
            lefts[each] = run.at + offsets[at]
            at += 1


def _wanted(vertex: Vertex, lefts: list[int], up: bool, down: bool) -> list[tuple[int, int]]:
    """Returns the positions that put the vertex straight below or above each of its neighbours. Between two of equal
    weights, the one above counts more: then a link that must turn does so once."""
    above = [(lefts[other] + port - own, 4 * weight + 1) for other, port, own, weight in vertex.up if up]
    below = [(lefts[other] + port - own, 4 * weight) for other, port, own, weight in vertex.down if down]
    return sorted(above + below)


def _middle(wanted: list[tuple[int, int]]) -> int:
    """Returns the weighted median; if there are two, their middle, or one of them if a link would turn for nothing."""
    if len(wanted) == 1:
        return wanted[0][0]
    total = sum(weight for _, weight in wanted)
    seen = 0
    for number, (position, weight) in enumerate(wanted):
        seen += weight
        if 2 * seen > total:
            return position
        if 2 * seen == total:
            other = wanted[number + 1][0]
            return (position + other) // 2 if other - position > _TURN else position
    raise AssertionError("no position is wanted")
