"""Places boxes in layers from top to bottom and draws the links between them with right angles.

Links run in the gaps between layers and, past a layer, in the columns of their dummies. So no link crosses a box.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.topology.picture.network import DUMMY_WIDTH, Item, Link, Network, Point, Route, network_of, steps
from penstock.topology.picture.ordering import order
from penstock.topology.picture.placing import place
from penstock.topology.picture.tracks import Net, assign, hidden

_BEFORE_TRACKS, _BETWEEN_TRACKS, _AFTER_TRACKS = 12, 10, 20
_WITHOUT_TRACKS = 30
_ASIDE = 10
"""Pixels by which a branch moves aside from another one in the same column."""

Position = tuple[int, int]


@dataclass(frozen=True)
class Layout:
    """The left upper corner of each item, the corners of each link from its source to its target, and the size."""

    corners: dict[str, Position]
    routes: dict[str, tuple[Position, ...]]
    width: int
    height: int


@dataclass
class _Gap:
    """The space above a layer, or below the last one: its upper and lower side, and its nets by their common ends."""

    nets: dict[tuple[str, Point], Net]
    top: int = 0
    bottom: int = 0
    aside: dict[int, int] | None = None


@dataclass(frozen=True)
class _Ends:
    """A segment of a link in a gap: two points, each with the side of the gap on which it is."""

    gap: int
    one: Point
    one_above: bool
    other: Point
    other_above: bool


def lay_out(items: Sequence[Item], links: Sequence[Link]) -> Layout:
    """Returns the positions. The same items and links give the same layout. Links may make circles."""
    network = network_of(items, links)
    order(network)
    return _Router(network, place(network)).layout()


class _Router:
    def __init__(self, network: Network, lefts: list[int]) -> None:
        self._network, self._lefts = network, lefts
        self._gaps = [_Gap({}) for _ in range(len(network.layers) + 1)]
        self._net_of: dict[_Ends, Net] = {}
        self._segments = {route.link.id: list(_segments(network, route)) for route in network.routes}

    def layout(self) -> Layout:
        """Returns the layout, when nets have tracks and gaps their heights."""
        self._make_nets()
        tops = self._heights()
        vertices = self._network.vertices
        corners = {
            vertex.item: (self._lefts[each], tops[vertex.layer])
            for each, vertex in enumerate(vertices)
            if vertex.item is not None
        }
        routes = {route.link.id: self._corners_of(route, tops) for route in self._network.routes}
        width = max((self._lefts[each] + vertex.width for each, vertex in enumerate(vertices)), default=0)
        return Layout(corners, routes, width, self._gaps[-1].bottom)

    def _x(self, point: Point) -> int:
        return self._lefts[point.vertex] + point.port

    def _make_nets(self) -> None:
        """Links of one source share a net, and so do links to one target that share it with no others."""
        every = list(dict.fromkeys(each for segments in self._segments.values() for each in segments))
        leaving: dict[tuple[int, Point], int] = {}
        for each in every:
            leaving[each.gap, each.one] = leaving.get((each.gap, each.one), 0) + 1
        for each in every:
            turns = each.one_above == each.other_above
            alone = leaving[each.gap, each.one] == 1 and not turns
            key = ("to", each.other) if alone else ("from", each.one)
            net = self._gaps[each.gap].nets.setdefault(key, Net())
            self._net_of[each] = net
            for point, above in ((each.one, each.one_above), (each.other, each.other_above)):
                side = net.uppers if above else net.lowers
                if self._x(point) not in side:
                    side.append(self._x(point))

    def _heights(self) -> list[int]:
        """Set the sides of all gaps; returns the upper side of each layer."""
        tops, at = [], 0
        for number, gap in enumerate(self._gaps):
            nets = list(gap.nets.values())
            tracks = assign(nets)
            gap.aside = {upper: upper + _ASIDE for _, upper in hidden(nets)}
            inner = 0 < number < len(self._network.layers)
            height = _BEFORE_TRACKS + (tracks - 1) * _BETWEEN_TRACKS + _AFTER_TRACKS if tracks else 0
            gap.top, gap.bottom = at, at + max(height, _WITHOUT_TRACKS if inner else 0)
            tops.append(gap.bottom)
            if number < len(self._network.layers):
                layer = self._network.layers[number]
                at = gap.bottom + max(self._network.vertices[each].height for each in layer)
        return tops

    def _corners_of(self, route: Route, tops: list[int]) -> tuple[Position, ...]:
        source = self._network.vertices[route.begin.vertex]
        corners = [(self._x(route.begin), tops[source.layer] + source.height)]
        for each in self._segments[route.link.id]:
            corners += self._through(each)
        target = self._network.vertices[route.end.vertex]
        corners.append((self._x(route.end), tops[target.layer]))
        return _without_middles(corners)

    def _through(self, ends: _Ends) -> list[Position]:
        """Returns the corners of a segment within its gap."""
        gap, net = self._gaps[ends.gap], self._net_of[ends]
        assert gap.aside is not None
        one, other = self._x(ends.one), self._x(ends.other)
        track = gap.top + _BEFORE_TRACKS + net.track * _BETWEEN_TRACKS
        if one == other:
            return [(one, gap.top), (one, gap.bottom)] if ends.one_above else [(one, gap.bottom), (one, gap.top)]
        first, last = self._branch(gap, one, ends.one_above, track), self._branch(gap, other, ends.other_above, track)
        return first + last[::-1]

    def _branch(self, gap: _Gap, x: int, above: bool, track: int) -> list[Position]:
        """Returns the corners from a side of the gap to the track."""
        assert gap.aside is not None
        if not above:
            return [(x, gap.bottom), (x, track)]
        aside = gap.aside.get(x, x)
        turn = gap.top + _BEFORE_TRACKS // 2
        return [(x, gap.top), (x, turn), (aside, turn), (aside, track)]


def _segments(network: Network, route: Route) -> Iterable[_Ends]:
    """Yields the segments of a route in the order in which records pass them."""
    first = network.vertices[route.begin.vertex].layer
    last = network.vertices[route.end.vertex].layer
    if not route.backwards:
        for number, (upper, lower) in enumerate(steps(route)):
            yield _Ends(first + number + 1, upper, True, lower, False)
        return
    turns = [Point(route.dummies[each], DUMMY_WIDTH // 2) for each in (0, -1)]
    yield _Ends(first + 1, route.begin, True, turns[0], True)
    for number, (upper, lower) in enumerate(reversed(list(steps(route)))):
        yield _Ends(first - number, lower, False, upper, True)
    yield _Ends(last, turns[1], False, route.end, False)


def _without_middles(corners: list[Position]) -> tuple[Position, ...]:
    """Returns the corners without repetitions and without those in the middle of a line."""
    kept: list[Position] = []
    for corner in corners:
        if kept and kept[-1] == corner:
            continue
        if len(kept) > 1 and any(kept[-2][axis] == kept[-1][axis] == corner[axis] for axis in (0, 1)):
            kept.pop()
        kept.append(corner)
    return tuple(kept)
