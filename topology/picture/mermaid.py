"""A diagram as the text of a Mermaid flowchart, which forges and wikis draw by themselves."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.topology.picture.diagram import BoxKind, Diagram, Part
from penstock.topology.picture.text import drawable

_SHAPES = {
    BoxKind.TOPIC: ('(["', '"])'),
    BoxKind.REPARTITION: ('(["', '"])'),
    BoxKind.STORE: ('[("', '")]'),
    BoxKind.GLOBAL_STORE: ('[("', '")]'),
}
_BOX = ('["', '"]')


def mermaid(diagram: Diagram) -> str:
    """Returns the flowchart. Its layout is Mermaid's own. The same diagram gives the same text."""
    return "\n".join(_lines(diagram)) + "\n"


def _lines(diagram: Diagram) -> Iterator[str]:
    # Mermaid takes few characters for ids, and reserves words such as "end": so boxes are numbered.
    ids = {part.id: f"b{number}" for number, part in enumerate(diagram.parts)}
    yield "flowchart TD"
    for part in diagram.parts:
        if part.lane is None:
            yield f"  {_box(ids[part.id], part)}"
    for number, lane in enumerate(diagram.lanes):
        yield f'  subgraph s{number}["{_quoted(lane.name)}"]'
        for part in diagram.parts:
            if part.lane == lane.id:
                yield f"    {_box(ids[part.id], part)}"
        yield "  end"
    stores = {part.id for part in diagram.parts if part.kind.is_store}
    for link in diagram.links:
        arrow = "-.-" if link.target in stores else "-->"
        yield f"  {ids[link.source]} {arrow} {ids[link.target]}"


def _box(id: str, part: Part) -> str:
    begin, end = _SHAPES.get(part.kind, _BOX)
    return f"{id}{begin}{_quoted(part.name)}<br>{_quoted(part.note)}{end}"


def _quoted(text: str) -> str:
    """Returns text in which each character that Mermaid or HTML could read as more than itself is a numbered entity."""
    return "".join(each if each.isalnum() or each in " .,:-_" else f"#{ord(each)};" for each in drawable(text))
