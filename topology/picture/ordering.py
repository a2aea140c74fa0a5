"""The order of vertices within their layers, with few crossings of links: sweeps of barycentres, and exchanges of
neighbours."""

from __future__ import annotations

from itertools import pairwise

from penstock.topology.picture.network import Network

_SWEEPS, _LEAST_SWEEPS = 16, 4
_WORK = 20_000
"""Number of vertices times sweeps, which bounds the time that a large network takes."""
_EXCHANGED_UP_TO = 2_000
"""Number of vertices above which neighbours are not exchanged, because that takes long."""
_FRACTION = 1 << 12


def order(network: Network) -> None:
    """Sort the vertices of each layer. The result depends on the network alone."""
    layers = _walked(network)
    best, fewest = layers, _crossings(network, layers)
    sweeps = max(_LEAST_SWEEPS, min(_SWEEPS, _WORK // (len(network.vertices) + 1)))
    for sweep in range(sweeps):
        layers = _swept(network, layers, downwards=sweep % 2 == 0)
        if len(network.vertices) <= _EXCHANGED_UP_TO:
            _exchange(network, layers)
        crossings = _crossings(network, layers)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layers], crossings
        if fewest == 0:
            break
    network.layers = best


def _walked(network: Network) -> list[list[int]]:
    """Returns the layers in the order in which a walk along the links meets their vertices: branches stay together."""
    layers: list[list[int]] = [[] for _ in network.layers]
    met: set[int] = set()
    roots = [each for layer in network.layers for each in layer if not network.vertices[each].up]
    for root in roots:
        left = [root]
        while left:
            here = left.pop()
            if here not in met:
                met.add(here)
                layers[network.vertices[here].layer].append(here)
                left += [each[0] for each in reversed(network.vertices[here].down)]
    return layers


def _swept(network: Network, layers: list[list[int]], downwards: bool) -> list[list[int]]:
    layers = [list(layer) for layer in layers]
    for number in range(1, len(layers)) if downwards else range(len(layers) - 2, -1, -1):
        places = _places(network, layers[number - 1 if downwards else number + 1])
        wanted: dict[int, float] = {}
        for each in layers[number]:
            neighbours = network.vertices[each].up if downwards else network.vertices[each].down
            if neighbours:
                wanted[each] = sum(places[other] + port for other, port, _, _ in _scaled(network, neighbours)) / len(
                    neighbours
                )
        ordered = iter(sorted(wanted, key=lambda each: wanted[each]))
        layers[number] = [next(ordered) if each in wanted else each for each in layers[number]]
    return layers


def _places(network: Network, layer: list[int]) -> dict[int, int]:
    return {each: place * _FRACTION for place, each in enumerate(layer)}


def _scaled(network: Network, neighbours: list[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Returns the neighbours with their ports as fractions of their widths."""
    return [
        (other, port * _FRACTION // (network.vertices[other].width + 1), own, weight)
        for other, port, own, weight in neighbours
    ]


def _crossings(network: Network, layers: list[list[int]]) -> int:
    return sum(_crossings_below(network, upper, lower) for upper, lower in pairwise(layers))


def _crossings_below(network: Network, upper: list[int], lower: list[int]) -> int:
    """Returns the number of pairs of links between two layers that cross, counted by a tree of partial sums."""
    places = _places(network, lower)
    ends: list[int] = []
    for each in upper:
        vertex = network.vertices[each]
        mine = [(own, places[other] + port) for other, port, own, _ in _scaled(network, vertex.down)]
        ends += [end for _, end in sorted(mine)]
    ranks = {end: rank for rank, end in enumerate(sorted(set(ends)), start=1)}
    tree = [0] * (len(ranks) + 1)
    crossings = 0
    for seen, end in enumerate(ends):
        rank = at = ranks[end]
        not_right = 0
        while at:
            not_right += tree[at]
            at &= at - 1
        crossings += seen - not_right
        while rank < len(tree):
            tree[rank] += 1
            rank += rank & -rank
    return crossings


def _exchange(network: Network, layers: list[list[int]]) -> None:
    """Exchange neighbours within layers as long as links cross less, for a few rounds."""
    for _ in range(4):
        better = False
        for number, layer in enumerate(layers):
            above = _places(network, layers[number - 1]) if number else {}
            below = _places(network, layers[number + 1]) if number + 1 < len(layers) else {}
            for at in range(len(layer) - 1):
                left, right = (network.vertices[each] for each in layer[at : at + 2])
                now, then = (
                    _between(network, one.up, other.up, above) + _between(network, one.down, other.down, below)
                    for one, other in ((left, right), (right, left))
                )
                if then < now:
                    layer[at], layer[at + 1] = layer[at + 1], layer[at]
                    better = True
        if not better:
            return


def _between(
    network: Network,
    left: list[tuple[int, int, int, int]],
    right: list[tuple[int, int, int, int]],
    places: dict[int, int],
) -> int:
    """Returns the number of crossings between the links of two neighbours, the first of which is on the left."""
    lefts = [places[other] + port for other, port, _, _ in _scaled(network, left)]
    rights = [places[other] + port for other, port, _, _ in _scaled(network, right)]
    return sum(one > other for one in lefts for other in rights)
