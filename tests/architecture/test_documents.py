"""The files and sections that the documents link to exist; glossary and changelog are in order."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(path.relative_to(ROOT) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_every_link_leads_to_a_file(document: Path) -> None:
    text = (ROOT / document).read_text()
    links = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    missing = [link for link in links if "://" not in link and not (ROOT / document.parent / link).resolve().exists()]
    assert not missing


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_every_link_to_a_section_names_one_that_there_is(document: Path) -> None:
    missing = []
    for link, section in re.findall(r"\]\(([^):#]*)#([^)]+)\)", (ROOT / document).read_text()):
        page = (ROOT / document.parent / link) if link else ROOT / document
        if page.suffix == ".md" and section not in sections(page.read_text()):
            missing.append(f"{link}#{section}")
    assert not missing


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_every_row_of_a_table_is_below_a_head(document: Path) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / document).read_text(), flags=re.DOTALL)
    tables = re.findall(r"(?<=\n\n)\|.*\n.*", text)
    assert [table for table in tables if not re.search(r"\n *\|[ :|-]+\|$", table)] == []


def sections(text: str) -> list[str]:
    """Returns the names of the sections in links, as GitHub makes them of the headings."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


def test_the_glossary_is_in_order_and_defines_each_word_once() -> None:
    rows = re.findall(r"^\| \*\*(.+?)\*\*", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    assert rows == sorted(set(rows), key=str.casefold)


def test_the_changelog_begins_with_what_is_not_released_and_then_names_the_projects_version() -> None:
    releases = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert releases[0] == ("Unreleased", "")
    assert releases[1][0] == version
    assert all(date for _, date in releases[1:])
