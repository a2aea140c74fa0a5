"""A picture as SVG: one document without scripts, light or dark as its reader's system is.

The id of each box, lane and link is that of its part, so a page can find and change it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from itertools import pairwise

from penstock.topology.picture.layered import Position
from penstock.topology.picture.picture import NAME_WIDTH, NOTE_COLUMNS, NOTE_WIDTH, Box, Lane, Line, Picture
from penstock.topology.picture.text import columns, drawable, is_regular, shortened

_LIGHT = {
    "paper": "#ffffff", "ink": "#1f2328", "faint": "#59636e", "line": "#6e7781", "lane": "#f6f8fa",
    "lane-edge": "#d1d9e0", "node": "#ffffff", "node-edge": "#818b98", "topic": "#ddf4ff", "topic-edge": "#218bff",
    "repartition": "#fff8c5", "repartition-edge": "#bf8700", "store": "#dafbe1", "store-edge": "#2da44e",
}  # fmt: skip
_DARK = {
    "paper": "#0d1117", "ink": "#f0f6fc", "faint": "#9198a1", "line": "#9198a1", "lane": "#151b23",
    "lane-edge": "#3d444d", "node": "#212830", "node-edge": "#656c76", "topic": "#0c2d6b", "topic-edge": "#388bfd",
    "repartition": "#4b2900", "repartition-edge": "#bb8009", "store": "#033a16", "store-edge": "#2ea043",
}  # fmt: skip
_FORM = {
    "text": "text-anchor:middle;unicode-bidi:isolate",
    ".lane .name": "text-anchor:start",
    ".name": "font:600 11px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace",
    ".note": "font:10px system-ui,'Segoe UI',Helvetica,Arial,sans-serif",
    ".shape": "stroke-width:1.2",
    ".link": "fill:none;stroke-width:1.4",
    ".to-store": "stroke-dasharray:2 3",
    ".global .shape,.global-store .shape": "stroke-dasharray:5 3",
}
_ROLE = 'role="graphics-document"'
_ARROW = (
    '<defs><marker id="penstock-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
    'orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker></defs>'
)
_ROUND = 6
_COVER = 5
"""Half of the height of the ellipse on top of a store."""


def svg(picture: Picture) -> str:
    """Returns the document. The same picture gives the same text."""
    title = escape(drawable(picture.title))
    size = f'width="{picture.width}" height="{picture.height}"'
    box = f'viewBox="0 0 {picture.width} {picture.height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="penstock-picture" {size} {box} {_ROLE} aria-label="{title}">',
        f"<title>{title}</title>",
        f"<style>{_style()}</style>",
        _ARROW,
        f'<rect class="paper" {size} rx="8"/>',
        *(_lane(lane) for lane in picture.lanes),
        *(_line(line) for line in picture.lines),
        *(_box(box) for box in picture.boxes),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _style() -> str:
    """Returns the rules. The colours are written out, because not every program that draws SVG knows variables of CSS;
    such a program ignores the rules for dark systems, too."""
    return f"{_rules(_FORM)}{_rules(_coloured(_LIGHT))}@media (prefers-color-scheme:dark){{{_rules(_coloured(_DARK))}}}"


def _rules(of: dict[str, str]) -> str:
    return "".join(
        ",".join(f".penstock-picture {part}" for part in parts.split(",")) + f"{{{rule}}}" for parts, rule in of.items()
    )


def _coloured(colours: dict[str, str]) -> dict[str, str]:
    """Returns the rules for colours. The order counts: what holds for all shapes comes first."""

    def shape(name: str) -> str:
        return f"fill:{colours[name]};stroke:{colours[name + '-edge']}"

    return {
        ".paper": f"fill:{colours['paper']}",
        "text": f"fill:{colours['ink']}",
        ".note,.lane .name": f"fill:{colours['faint']}",
        ".head": f"fill:{colours['line']}",
        ".link": f"stroke:{colours['line']}",
        ".shape": shape("node"),
        ".lane .shape": shape("lane"),
        ".source .shape,.sink .shape": f"stroke:{colours['topic-edge']}",
        ".topic .shape": shape("topic"),
        ".repartition .shape": shape("repartition"),
        ".store .shape,.global-store .shape": shape("store"),
    }


def _lane(lane: Lane) -> str:
    name = shortened(lane.part.name, NOTE_COLUMNS)
    shown = _text("name", lane.x + lane.name_x, lane.y + 21, name, NAME_WIDTH)
    rect = f'<rect class="shape" x="{lane.x}" y="{lane.y}" width="{lane.width}" height="{lane.height}" rx="8"/>'
    kind = "lane global" if lane.part.is_global else "lane"
    return _group(kind, lane.part.id, lane.part.name, rect + shown)


def _box(box: Box) -> str:
    middle = box.x + box.width // 2
    drop = _COVER + 1 if box.part.kind.is_store else 0
    texts = _text("name", middle, box.y + 18 + drop, box.name, NAME_WIDTH)
    texts += _text("note", middle, box.y + 33 + drop, box.note, NOTE_WIDTH)
    return _group(f"box {box.part.kind}", box.part.id, box.part.title, _shape(box) + texts)


def _group(kind: str, id: str, title: str, content: str) -> str:
    return (
        f'<g class="{kind}" id="{escape(id)}" role="graphics-symbol"><title>{escape(drawable(title))}</title>'
        f"{content}</g>"
    )


def _shape(box: Box) -> str:
    x, y, width, height = box.x, box.y, box.width, box.height
    if not box.part.kind.is_store:
        radius = height // 2 if box.part.kind.is_topic else 5
        return f'<rect class="shape" x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}"/>'
    arc = f"a{width // 2} {_COVER} 0 0"
    top, side = y + _COVER, height - 2 * _COVER
    body = f"M{x} {top}{arc} 1 {width} 0v{side}{arc} 1 {-width} 0z"
    return f'<path class="shape" d="{body}M{x} {top}{arc} 0 {width} 0"/>'


def _text(kind: str, x: int, y: int, text: str, column: int) -> str:
    """Returns a line of text. The width of other text than ASCII depends on the fonts, so it is given."""
    fixed = "" if is_regular(text) else f' textLength="{columns(text) * column}" lengthAdjust="spacingAndGlyphs"'
    return f'<text class="{kind}" x="{x}" y="{y}"{fixed}>{escape(text)}</text>'


def _line(line: Line) -> str:
    kind = "link to-store" if line.to_store else "link"
    arrow = "" if line.to_store else ' marker-end="url(#penstock-arrow)"'
    return (
        f'<path class="{kind}" id="{escape(line.part.id)}" data-source="{escape(line.part.source)}" '
        f'data-target="{escape(line.part.target)}" d="{path_of(line)}"{arrow}/>'
    )


def path_of(line: Line) -> str:
    """Returns the way of a line, as the attribute ``d`` of a path: with round corners."""
    return "".join(_drawn(line.corners))


def _drawn(corners: tuple[Position, ...]) -> Iterator[str]:
    """Yields the commands of a path with round corners."""
    yield f"M{corners[0][0]} {corners[0][1]}"
    for before, here, after in _triples(corners):
        radius = min(_ROUND, _apart(before, here) // 2, _apart(here, after) // 2)
        begin, end = _towards(here, before, radius), _towards(here, after, radius)
        yield f"L{begin[0]} {begin[1]}Q{here[0]} {here[1]} {end[0]} {end[1]}"
    yield f"L{corners[-1][0]} {corners[-1][1]}"


def _triples(corners: tuple[Position, ...]) -> Iterable[tuple[Position, Position, Position]]:
    pairs = list(pairwise(corners))
    return ((before, here, after) for (before, here), (_, after) in pairwise(pairs))


def _apart(one: Position, other: Position) -> int:
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def _towards(here: Position, there: Position, distance: int) -> Position:
    """Returns the position at a distance from ``here`` on the straight way to ``there``."""
    steps = [(0 if a == b else distance if b > a else -distance) for a, b in zip(here, there, strict=True)]
    return here[0] + steps[0], here[1] + steps[1]
