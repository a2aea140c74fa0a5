"""A picture as a value: positions, sizes and routes of all parts of a diagram, in pixels from the left upper corner.

Whole numbers, from the diagram alone: the same diagram gives the same picture everywhere. ``svg.py`` draws it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from penstock.topology.picture.diagram import Diagram, LanePart, LinkPart, Part
from penstock.topology.picture.layered import Layout, Position, lay_out
from penstock.topology.picture.network import Item, Link, Pinned
from penstock.topology.picture.text import columns, shortened

NAME_COLUMNS, NOTE_COLUMNS = 34, 40
NAME_WIDTH, NOTE_WIDTH = 7, 6
"""Pixels of a column, not less than any usual font of the sizes that ``svg.py`` names takes."""
_HEIGHT, _STORE_HEIGHT = 44, 54
_BESIDE_TEXT, _LEAST_WIDTH = 14, 96
_LANE_SIDE, _LANE_HEAD, _LANE_FOOT = 22, 34, 18
_MARGIN, _BETWEEN_COMPONENTS = 20, 48
_WIDE = 1_600
"""Pixels of a row of unconnected parts, unless one part is wider."""
_RECORDS, _STORES = 4, 1
"""Weights of links: the way of records is straight, and stores are beside it."""


@dataclass(frozen=True)
class Box:
    """A part with its position, and its two lines of text as they are drawn."""

    part: Part
    x: int
    y: int
    width: int
    height: int
    name: str
    note: str


@dataclass(frozen=True)
class Lane:
    """A sub-topology with its position; its heading begins ``name_x`` pixels from its left side."""

    part: LanePart
    x: int
    y: int
    width: int
    height: int
    name_x: int


@dataclass(frozen=True)
class Line:
    """A link with its corners, from its source to its target."""

    part: LinkPart
    to_store: bool
    corners: tuple[Position, ...]


@dataclass(frozen=True)
class Picture:
    """All parts of a topology with their positions."""

    title: str
    width: int
    height: int
    lanes: tuple[Lane, ...]
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]


def picture_of(diagram: Diagram) -> Picture:
    """Returns the picture of a diagram: each lane is laid out on its own, then lanes and topics around them."""
    parts = {part.id: part for part in diagram.parts}
    inner = {lane.id: _InnerLane.of(lane, diagram) for lane in diagram.lanes}
    outside = [link for link in diagram.links if parts[link.source].lane != parts[link.target].lane]
    ends = [_outer(part, inner) for part in diagram.parts]
    outer_items = list({item.id: item for item in ends}.values())
    outer_links = [_outer_link(link, parts, inner) for link in outside]
    placed = _Placed(diagram, inner)
    for items, links, (x, y), layout in _packed(outer_items, outer_links):
        placed.add(items, links, x, y, layout)
    return placed.picture()


def _size(part: Part) -> tuple[int, int]:
    name = columns(shortened(part.name, NAME_COLUMNS)) * NAME_WIDTH
    note = columns(shortened(part.note, NOTE_COLUMNS)) * NOTE_WIDTH
    width = max(name, note, _LEAST_WIDTH - 2 * _BESIDE_TEXT) + 2 * _BESIDE_TEXT
    return width + width % 2, _STORE_HEIGHT if part.kind.is_store else _HEIGHT


@dataclass(frozen=True)
class _InnerLane:
    lane: LanePart
    layout: Layout
    links: tuple[LinkPart, ...]
    ports: dict[str, int]
    """The distance from the lane's left side of each box through which records enter or leave."""
    name_x: int
    width: int

    @property
    def height(self) -> int:
        return _LANE_HEAD + self.layout.height + _LANE_FOOT

    @staticmethod
    def of(lane: LanePart, diagram: Diagram) -> _InnerLane:
        parts = {part.id: part for part in diagram.parts if part.lane == lane.id}
        links = tuple(link for link in diagram.links if link.source in parts and link.target in parts)
        entered = {link.target for link in diagram.links if link.source not in parts}
        left = {link.source for link in diagram.links if link.target not in parts}
        items = []
        for part in parts.values():
            pinned = Pinned.FIRST if part.id in entered else Pinned.LAST if part.id in left else None
            items.append(Item(part.id, *_size(part), pinned))
        weights = {part.id: _STORES if part.kind.is_store else _RECORDS for part in parts.values()}
        laid = [Link(link.id, link.source, link.target, weight=weights[link.target]) for link in links]
        laid.sort(key=lambda link: -link.weight)  # so that stores are on the right
        layout = lay_out(items, laid)
        widths = {item.id: item.width for item in items}
        ports = {each: _LANE_SIDE + x + widths[each] // 2 for each, (x, _) in layout.corners.items()}
        entries = sorted(ports[each] for each in entered & parts.keys())
        name_x, width = _room_for_name(lane, layout.width + 2 * _LANE_SIDE, entries)
        return _InnerLane(lane, layout, links, ports, name_x, width)


def name_width(lane: LanePart) -> int:
    """Returns the pixels that the heading of a lane takes."""
    return columns(shortened(lane.name, NOTE_COLUMNS)) * NAME_WIDTH


def _room_for_name(lane: LanePart, width: int, entries: Sequence[int]) -> tuple[int, int]:
    """Returns a position of the lane's heading between the lines that enter the lane, and the width that it needs."""
    needed = name_width(lane)
    for left, right in pairwise([_LANE_SIDE - 16, *entries, max(width, (entries or [0])[-1] + needed + 32)]):
        if right - left >= needed + 16:
            begin = left + 8
            wide = max(width, begin + needed + 8)
            return begin, wide + wide % 2
    raise AssertionError("the last space is wide enough")


def _outer(part: Part, inner: dict[str, _InnerLane]) -> Item:
    if part.lane is None:
        return Item(part.id, *_size(part))
    return Item(part.lane, inner[part.lane].width, inner[part.lane].height)


def _outer_link(link: LinkPart, parts: dict[str, Part], inner: dict[str, _InnerLane]) -> Link:
    source, target = parts[link.source], parts[link.target]
    source_port = None if source.lane is None else inner[source.lane].ports[source.id]
    target_port = None if target.lane is None else inner[target.lane].ports[target.id]
    return Link(link.id, source.lane or source.id, target.lane or target.id, source_port, target_port)


def _packed(items: Sequence[Item], links: Sequence[Link]) -> Iterable[tuple[list[Item], list[Link], Position, Layout]]:
    """Lays out each set of connected items, and yields them with their positions, in rows."""
    laid = []
    for group in _connected(items, links):
        mine = [item for item in items if item.id in group]
        between = [link for link in links if link.source in group]
        laid.append((mine, between, lay_out(mine, between)))
    widest = max((_WIDE, *(layout.width for _, _, layout in laid)))
    x = y = row = 0
    for mine, between, layout in laid:
        if x and x + layout.width > widest:
            x, y, row = 0, y + row + _BETWEEN_COMPONENTS, 0
        yield mine, between, (_MARGIN + x, _MARGIN + y), layout
        x += layout.width + _BETWEEN_COMPONENTS
        row = max(row, layout.height)


def _connected(items: Sequence[Item], links: Sequence[Link]) -> list[set[str]]:
    beside: dict[str, list[str]] = {item.id: [] for item in items}
    for link in links:
        beside[link.source].append(link.target)
        beside[link.target].append(link.source)
    groups: list[set[str]] = []
    met: set[str] = set()
    for item in items:
        if item.id in met:
            continue
        group, left = set(), [item.id]
        while left:
            here = left.pop()
            if here not in group:
                group.add(here)
                left += beside[here]
        groups.append(group)
        met |= group
    return groups


class _Placed:
    """Gathers what is placed, and puts lines together that run within a lane and outside of it."""

    def __init__(self, diagram: Diagram, inner: dict[str, _InnerLane]) -> None:
        self._diagram, self._inner = diagram, inner
        self._parts = {part.id: part for part in diagram.parts}
        self._lanes: dict[str, Lane] = {}
        self._boxes: dict[str, Box] = {}
        self._corners: dict[str, tuple[Position, ...]] = {}

    def add(self, items: Iterable[Item], links: Iterable[Link], x: int, y: int, layout: Layout) -> None:
        """Add connected lanes and topics at a position."""
        for item in items:
            left, top = layout.corners[item.id]
            if item.id in self._inner:
                self._add_lane(self._inner[item.id], x + left, y + top)
            else:
                self._add_box(item.id, x + left, y + top)
        for link in links:
            self._corners[link.id] = _moved(layout.routes[link.id], x, y)

    def _add_lane(self, inner: _InnerLane, x: int, y: int) -> None:
        self._lanes[inner.lane.id] = Lane(inner.lane, x, y, inner.width, inner.height, inner.name_x)
        x, y = x + _LANE_SIDE, y + _LANE_HEAD
        for each, (left, top) in inner.layout.corners.items():
            self._add_box(each, x + left, y + top)
        for link in inner.links:
            self._corners[link.id] = _moved(inner.layout.routes[link.id], x, y)

    def _add_box(self, id: str, x: int, y: int) -> None:
        part = self._parts[id]
        lines = shortened(part.name, NAME_COLUMNS), shortened(part.note, NOTE_COLUMNS)
        self._boxes[id] = Box(part, x, y, *_size(part), *lines)

    def picture(self) -> Picture:
        """Returns the picture, when all is added."""
        lines = tuple(self._line(link) for link in self._diagram.links)
        lanes = tuple(self._lanes[lane.id] for lane in self._diagram.lanes)
        boxes = tuple(self._boxes[part.id] for part in self._diagram.parts)
        placed: list[Lane | Box] = [*lanes, *boxes]
        corners = [(each.x + each.width, each.y + each.height) for each in placed]
        corners += [corner for line in lines for corner in line.corners]
        right, bottom = (max((each[axis] for each in corners), default=0) for axis in (0, 1))
        return Picture(self._diagram.title, right + _MARGIN, bottom + _MARGIN, lanes, boxes, lines)

    def _line(self, link: LinkPart) -> Line:
        """Returns the line; one that enters or leaves a lane continues straight to the box in it."""
        corners = self._corners[link.id]
        source, target = self._boxes[link.source], self._boxes[link.target]
        begin, end = (corners[0][0], source.y + source.height), (corners[-1][0], target.y)
        corners = (begin, *corners[1:-1], end)
        return Line(link, target.part.kind.is_store, corners)


def _moved(corners: Iterable[Position], x: int, y: int) -> tuple[Position, ...]:
    return tuple((x + left, y + top) for left, top in corners)
