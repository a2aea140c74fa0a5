"""The properties of every picture, over random diagrams: nothing overlaps, and each line is drawn where it belongs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.topology.physical.diagrams import diagram_of
from penstock.topology.picture.diagram import BoxKind, Diagram, LanePart, LinkPart, Part, part_id
from penstock.topology.picture.mermaid import mermaid
from penstock.topology.picture.picture import NAME_WIDTH, NOTE_WIDTH, Box, Lane, Line, Picture, name_width, picture_of
from penstock.topology.picture.svg import svg
from penstock.topology.picture.text import columns
from tests.tiers import examples
from tests.topology.picture.shapes import SHAPES

NAMES = st.one_of(
    st.text(min_size=1, max_size=8),
    st.sampled_from(
        ["</text><script>alert(1)</script>", "\u202eslor", "שלום", "表" * 60, "a" * 300, "\x00\ud800", "]]>&"]
    ),
)
Point = tuple[int, int]


@st.composite
def diagrams(draw: st.DrawFn, most_lanes: int = 4, most_nodes: int = 10) -> Diagram:
    """Sub-topologies of random nodes and stores; topics between them in any direction, circles too."""
    lanes, parts, links = [], [], []
    topics = [
        Part(part_id("topic", str(number)), BoxKind.TOPIC, draw(NAMES), "topic", draw(NAMES))
        for number in range(draw(st.integers(1, most_lanes + 2)))
    ]
    for number in range(draw(st.integers(1, most_lanes))):
        lane = LanePart(part_id("lane", str(number)), draw(NAMES), draw(st.booleans()))
        kinds = [BoxKind.SOURCE, *draw(st.lists(st.sampled_from([*BoxKind][:4]), max_size=most_nodes))]
        nodes: list[Part] = []
        for at, kind in enumerate(kinds):
            node = Part(part_id(f"node{number}", str(at)), kind, draw(NAMES), draw(NAMES), draw(NAMES), lane.id)
            forwarding = [each for each in nodes if each.kind in (BoxKind.SOURCE, BoxKind.PROCESSOR)]
            ends = st.lists(
                st.sampled_from(forwarding or [node]), min_size=1, max_size=3, unique_by=lambda each: each.id
            )
            if kind is BoxKind.SOURCE:
                links += [
                    LinkPart(topic.id, node.id)
                    for topic in draw(st.lists(st.sampled_from(topics), min_size=1, max_size=2))
                ]
            else:
                links += [LinkPart(parent.id, node.id) for parent in draw(ends)]
            if kind is BoxKind.SINK:
                links.append(LinkPart(node.id, draw(st.sampled_from(topics)).id))
            nodes.append(node)
        lanes.append(lane)
        parts += nodes
    used = {end for link in links for end in (link.source, link.target)}
    parts += [topic for topic in topics if topic.id in used]
    return Diagram(draw(NAMES), tuple(lanes), tuple(parts), tuple(dict.fromkeys(links)))


def overlap(one: Box | Lane, other: Box | Lane) -> bool:
    return (
        one.x < other.x + other.width and other.x < one.x + one.width
        and one.y < other.y + other.height and other.y < one.y + one.height
    )  # fmt: skip


def within(inner: Box | Lane, outer: Lane) -> bool:
    return (
        outer.x < inner.x and inner.x + inner.width < outer.x + outer.width
        and outer.y < inner.y and inner.y + inner.height < outer.y + outer.height
    )  # fmt: skip


def enters(one: Point, other: Point, box: Box | Lane) -> bool:
    """Returns True if a part of the straight line between two points is inside of a box."""
    far = box.x + box.width, box.y + box.height
    return all(
        max(min(ends), near) < min(max(ends), end) or near < ends[0] == ends[1] < end
        for ends, near, end in zip(zip(one, other, strict=True), (box.x, box.y), far, strict=True)
    )


def in_common(one: Line, other: Line) -> Iterator[tuple[Point, Point]]:
    """Yields the parts that two lines run on top of each other."""
    for a, b in pairwise(one.corners):
        for c, d in pairwise(other.corners):
            for axis in (0, 1):
                if a[axis] == b[axis] == c[axis] == d[axis]:
                    along = 1 - axis
                    begin = max(min(a[along], b[along]), min(c[along], d[along]))
                    end = min(max(a[along], b[along]), max(c[along], d[along]))
                    if begin < end:
                        yield (axis, a[axis]), (begin, end)


def check(picture: Picture) -> None:
    boxes = {box.part.id: box for box in picture.boxes}
    lanes = {lane.part.id: lane for lane in picture.lanes}
    assert [pair for pair in combinations(picture.boxes, 2) if overlap(*pair)] == []
    assert [pair for pair in combinations(picture.lanes, 2) if overlap(*pair)] == []
    for box in picture.boxes:
        assert [lane.part.id for lane in picture.lanes if overlap(box, lane)] == (
            [box.part.lane] if box.part.lane else []
        )
        assert box.part.lane is None or within(box, lanes[box.part.lane])
        assert columns(box.name) * NAME_WIDTH <= box.width - 20
        assert columns(box.note) * NOTE_WIDTH <= box.width - 20
        assert 0 <= box.x <= picture.width - box.width
        assert 0 <= box.y <= picture.height - box.height
    for line in picture.lines:
        check_line(line, picture, boxes)
    for lane in picture.lanes:
        check_heading(lane, picture)


def check_line(line: Line, picture: Picture, boxes: dict[str, Box]) -> None:
    source, target = boxes[line.part.source], boxes[line.part.target]
    assert line.corners[0] == (source.x + source.width // 2, source.y + source.height)
    assert line.corners[-1] == (target.x + target.width // 2, target.y)
    steps = list(pairwise(line.corners))
    assert all((a[0] == b[0]) != (a[1] == b[1]) for a, b in steps)
    assert all(0 <= x <= picture.width and 0 <= y <= picture.height for x, y in line.corners)
    ends = {source.part.lane, target.part.lane}
    others: list[Box | Lane] = [*picture.boxes, *(lane for lane in picture.lanes if lane.part.id not in ends)]
    assert [box for box in others for a, b in steps if enters(a, b, box)] == []


def check_heading(lane: Lane, picture: Picture) -> None:
    left, right = lane.x + lane.name_x, lane.x + lane.name_x + name_width(lane.part)
    assert lane.x < left
    assert right < lane.x + lane.width
    heading = Box(picture.boxes[0].part, left, lane.y + 8, right - left, 16, "", "")
    assert [line for line in picture.lines for a, b in pairwise(line.corners) if enters(a, b, heading)] == []


def check_apart(picture: Picture) -> None:
    """Lines of different ends have no part in common: otherwise one could take one for the other."""
    for one, other in combinations(picture.lines, 2):
        if one.part.source != other.part.source and one.part.target != other.part.target:
            assert list(in_common(one, other)) == [], (one, other)


@settings(max_examples=examples(60), deadline=None)
@given(diagrams())
def test_nothing_overlaps_and_every_line_goes_from_its_source_to_its_target(diagram: Diagram) -> None:
    picture = picture_of(diagram)
    check(picture)
    check_apart(picture)


@pytest.mark.parametrize("name", SHAPES)
def test_pictures_of_topologies_have_these_properties_too(name: str) -> None:
    picture = picture_of(diagram_of(SHAPES[name](), "app"))
    check(picture)
    check_apart(picture)
    assert not any(line.corners[0][1] > line.corners[-1][1] for line in picture.lines) or name == "foreign_key_join"


@settings(max_examples=examples(30), deadline=None)
@given(diagrams())
def test_an_svg_is_well_formed_and_has_every_part_once_by_its_id(diagram: Diagram) -> None:
    drawn = svg(picture_of(diagram))
    assert drawn == svg(picture_of(diagram))
    root = ElementTree.fromstring(drawn)
    ids = [each.get("id") for each in root.iter() if each.get("id") != "penstock-arrow" and each.get("id")]
    expected = [lane.id for lane in diagram.lanes] + [part.id for part in diagram.parts]
    assert sorted(map(str, ids)) == sorted(expected + [link.id for link in diagram.links])
    assert {each.tag.rpartition("}")[2] for each in root.iter()} <= {
        "svg", "title", "style", "defs", "marker", "path", "rect", "g", "text",
    }  # fmt: skip


@settings(max_examples=examples(30), deadline=None)
@given(diagrams())
def test_a_flowchart_has_every_part_on_a_line_of_its_own(diagram: Diagram) -> None:
    lines = mermaid(diagram).splitlines()
    assert lines[0] == "flowchart TD"
    assert len(lines) == 1 + 2 * len(diagram.lanes) + len(diagram.parts) + len(diagram.links)


def test_five_hundred_operators_are_drawn() -> None:
    lane = LanePart("lane", "Sub-topology 0")
    ids = [part_id("node", str(at)) for at in range(500)]
    parts = [Part(id, BoxKind.PROCESSOR, id, "filter", "", "lane") for id in ids]
    links = [LinkPart(parts[(at - 1) // 2].id, parts[at].id) for at in range(1, 500)]
    links += [LinkPart(parts[at].id, parts[at + 250].id) for at in range(0, 250, 5)]
    check(picture_of(Diagram("many", (lane,), tuple(parts), tuple(dict.fromkeys(links)))))
