"""The rules that the page's sources share with the server."""

from __future__ import annotations

import re

from penstock.cluster.findings import BEHIND_S, BUSY
from penstock.cluster.read_side import LONGEST_FLAME_S
from tests.architecture.sources import ROOT


def constant(file: str, name: str) -> list[float]:
    """Returns the numbers of a constant in a source of the page."""
    text = (ROOT / "page" / "src" / file).read_text()
    found = re.search(rf"const {name} = ([^;]+);", text)
    assert found is not None
    return [float(number) for number in re.findall(r"[\d.]+", found[1])]


def test_colours_change_where_findings_begin() -> None:
    assert BUSY in constant("common/heat.ts", "BUSY_STEPS")
    assert BEHIND_S in constant("common/heat.ts", "BEHIND_STEPS_S")


def test_the_page_asks_for_stacks_as_long_as_the_server_allows() -> None:
    assert constant("server/flame_source.ts", "FLAME_S") == [LONGEST_FLAME_S]
