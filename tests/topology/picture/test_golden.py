"""The pictures of twelve shapes, each looked at before it was kept: a changed picture is to be looked at again.

``python -m tests.topology.picture.test_golden`` writes them again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.topology.physical.pictures import html_of, mermaid_of, svg_of
from tests.topology.picture.shapes import SHAPES

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", SHAPES)
def test_the_picture_of_a_shape_equals_the_kept_one(name: str) -> None:
    assert svg_of(SHAPES[name](), "app") == (GOLDEN / f"{name}.svg").read_text()


def test_every_kept_picture_belongs_to_a_shape() -> None:
    assert {file.stem for file in GOLDEN.glob("*.svg")} == set(SHAPES)


def test_a_flowchart_has_lanes_topics_stores_and_links() -> None:
    lines = mermaid_of(SHAPES["word_count"](), "app").splitlines()
    assert '  b1(["lines<br>topic"])' in lines
    assert '  subgraph s1["Sub-topology 1"]' in lines
    assert '    b9[("counts<br>timestamped key-value, changelog")]' in lines
    assert "  b8 -.- b9" in lines
    assert "  b1 --> b0" in lines


def test_a_notebook_shows_the_picture_of_a_topology_and_of_its_value() -> None:
    topology = SHAPES["linear"]()
    assert topology._repr_html_() == topology.as_value._repr_html_() == html_of(topology)
    assert html_of(topology).startswith('<div style="overflow:auto"><svg ')


def test_internal_topics_have_their_full_names_in_titles() -> None:
    drawn = svg_of(SHAPES["word_count"](), "shop")
    assert "<title>repartition topic shop-counts-repartition</title>" in drawn
    assert "<title>timestamped key-value store counts, changelog shop-counts-changelog</title>" in drawn


def test_the_picture_is_dark_on_a_dark_system() -> None:
    assert "@media (prefers-color-scheme:dark){" in svg_of(SHAPES["linear"]())


def write() -> None:
    GOLDEN.mkdir(exist_ok=True)
    for name, build in SHAPES.items():
        (GOLDEN / f"{name}.svg").write_text(svg_of(build(), "app"))


if __name__ == "__main__":
    write()
