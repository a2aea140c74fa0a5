"""The navigation of the site."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from docsite.hooks import on_config
from tests.architecture.sources import ROOT


class Config:
    nav: ClassVar[Any] = [
        {"Start": [{"Joins": "JOINS.md"}]},
        {"Guides": ["*.md"]},
        {"Decisions": ["decisions/README.md", "decisions/0*.md"]},
    ]


def test_a_page_that_the_navigation_does_not_name_is_where_it_has_a_star() -> None:
    start, guides, decisions = cast(Any, on_config(cast(Any, Config())).nav)
    assert start == {"Start": [{"Joins": "JOINS.md"}]}
    assert guides["Guides"] == sorted(page.name for page in ROOT.glob("docs/*.md") if page.name != "JOINS.md")
    assert decisions["Decisions"][:2] == ["decisions/README.md", "decisions/0001-libraries.md"]
