"""The picture of a topology as SVG and as HTML for notebooks, and its Mermaid flowchart."""

from __future__ import annotations

from penstock.topology.physical.diagrams import diagram_of
from penstock.topology.physical.topology import Topology
from penstock.topology.picture.mermaid import mermaid
from penstock.topology.picture.picture import picture_of
from penstock.topology.picture.svg import svg


def svg_of(topology: Topology, application_id: str | None = None) -> str:
    """Returns the picture as an SVG document; ``application_id`` completes the names of internal topics."""
    return svg(picture_of(diagram_of(topology, application_id)))


def mermaid_of(topology: Topology, application_id: str | None = None) -> str:
    """Returns the text of a Mermaid flowchart."""
    return mermaid(diagram_of(topology, application_id))


def html_of(topology: Topology, application_id: str | None = None) -> str:
    """Returns the picture within an element that scrolls if the picture is wider than the page."""
    return f'<div style="overflow:auto">{svg_of(topology, application_id)}</div>'
