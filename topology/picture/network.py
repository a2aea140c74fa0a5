"""Boxes and links as a network of layers: each link goes from a layer to the next, through dummies if it is longer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise

DUMMY_WIDTH = 8


class Pinned(Enum):
    """The layer that an item must be in."""

    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True)
class Item:
    """A box to be placed. Widths and heights are even numbers of pixels."""

    id: str
    width: int
    height: int
    pinned: Pinned | None = None


@dataclass(frozen=True)
class Link:
    """A link from the bottom of ``source`` to the top of ``target``.

    A port is the distance (pixels) from the left side of the box at which the link ends; None is the middle. A link
    with a larger ``weight`` is straightened before others.
    """

    id: str
    source: str
    target: str
    source_port: int | None = None
    target_port: int | None = None
    weight: int = 1


@dataclass(frozen=True)
class Point:
    """An end of a segment: a vertex, and the distance from its left side."""

    vertex: int
    port: int


@dataclass
class Vertex:
    """An item, or a dummy (``item`` is None), which reserves the space of a link in its layer."""

    layer: int
    width: int
    height: int
    item: str | None
    up: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Neighbours in the layer above: (vertex, its port, the port here, weight)."""
    down: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Neighbours in the layer below, likewise."""


@dataclass(frozen=True)
class Route:
    """The way of a link: its ends, and the dummies between them in the order in which it passes them.

    ``backwards``: it leaves its source downwards, turns, passes its dummies upwards, and turns again into its target.
    """

    link: Link
    begin: Point
    end: Point
    dummies: tuple[int, ...]
    backwards: bool


@dataclass
class Network:
    """Vertices by layers, and the routes of all links."""

    vertices: list[Vertex]
    layers: list[list[int]]
    routes: list[Route]


def network_of(items: Sequence[Item], links: Sequence[Link]) -> Network:
    """Returns the network, whose layers are in the order of ``items``."""
    backwards = set(_closing_circles(items, links))
    layer_of = _layers(items, links, backwards)
    vertices = [Vertex(layer_of[item.id], item.width, item.height, item.id) for item in items]
    number = {item.id: each for each, item in enumerate(items)}
    network = Network(vertices, [[] for _ in range(max(layer_of.values(), default=-1) + 1)], [])
    alone = _alone(links)
    for link in links:
        network.routes.append(_route(network, link, number, link.id in backwards, link.id in alone))
    for each, vertex in enumerate(vertices):
        network.layers[vertex.layer].append(each)
    return network


def _alone(links: Sequence[Link]) -> set[str]:
    """Returns the ids of the links that share neither end with a link of the same weight: such ways can be straight."""
    begins = Counter((link.source, link.source_port, link.weight) for link in links)
    ends = Counter((link.target, link.target_port, link.weight) for link in links)
    return {
        link.id
        for link in links
        if begins[link.source, link.source_port, link.weight] == ends[link.target, link.target_port, link.weight] == 1
    }


def _route(network: Network, link: Link, number: dict[str, int], backwards: bool, alone: bool) -> Route:
    vertices = network.vertices
    begin, end = number[link.source], number[link.target]
    ports = [
        vertices[vertex].width // 2 if port is None else port
        for vertex, port in ((begin, link.source_port), (end, link.target_port))
    ]
    ends = Point(begin, ports[0]), Point(end, ports[1])
    first, last = vertices[begin].layer, vertices[end].layer
    between = range(first, last - 1, -1) if backwards else range(first + 1, last)
    dummies = []
    for layer in between:
        dummies.append(len(vertices))
        vertices.append(Vertex(layer, DUMMY_WIDTH, 0, None))
    route = Route(link, *ends, tuple(dummies), backwards)
    for upper, lower in steps(route):
        both = sum(vertices[point.vertex].item is None for point in (upper, lower))
        weight = link.weight * (1, 2, 8)[both] * (2 if alone else 1)
        vertices[upper.vertex].down.append((lower.vertex, lower.port, upper.port, weight))
        vertices[lower.vertex].up.append((upper.vertex, upper.port, lower.port, weight))
    return route


def steps(route: Route) -> Iterator[tuple[Point, Point]]:
    """Yields the steps of a route from a layer to the next as (upper end, lower end), without the turns of one that
    goes backwards."""
    dummies = [Point(each, DUMMY_WIDTH // 2) for each in route.dummies]
    points = dummies[::-1] if route.backwards else [route.begin, *dummies, route.end]
    yield from pairwise(points)


def _closing_circles(items: Sequence[Item], links: Sequence[Link]) -> Iterator[str]:
    """Yields the ids of links that a walk from the items without predecessors meets as a way back."""
    leaving: dict[str, list[Link]] = {item.id: [] for item in items}
    for link in links:
        leaving[link.source].append(link)
    entered = {link.target for link in links}
    begun: set[str] = set()
    ended: set[str] = set()
    for start in (*(item.id for item in items if item.id not in entered), *(item.id for item in items)):
        if start in begun:
            continue
        begun.add(start)
        walk = [(start, iter(leaving[start]))]
        while walk:
            here, left = walk[-1]
            way = next(left, None)
            if way is None:
                ended.add(here)
                walk.pop()
            elif way.target not in begun:
                begun.add(way.target)
                walk.append((way.target, iter(leaving[way.target])))
            elif way.target not in ended:
                yield way.id


def _layers(items: Sequence[Item], links: Sequence[Link], backwards: set[str]) -> dict[str, int]:
    """Returns the layer of each item: below all its predecessors, and an item that nothing enters close to its
    successors."""
    below: dict[str, list[str]] = {item.id: [] for item in items}
    waits = dict.fromkeys(below, 0)
    for link in links:
        upper, lower = (link.target, link.source) if link.id in backwards else (link.source, link.target)
        below[upper].append(lower)
        waits[lower] += 1
    roots = [item for item in items if waits[item.id] == 0]
    layer = dict.fromkeys(below, 0)
    ready = [item.id for item in roots]
    for here in ready:
        for each in below[here]:
            layer[each] = max(layer[each], layer[here] + 1)
            waits[each] -= 1
            if waits[each] == 0:
                ready.append(each)
    for item in roots:
        if item.pinned is not Pinned.FIRST and below[item.id]:
            layer[item.id] = min(layer[each] for each in below[item.id]) - 1
    last = max(layer.values(), default=0)
    return layer | {item.id: last for item in items if item.pinned is Pinned.LAST}
