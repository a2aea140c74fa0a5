"""The site is built without a warning, and works without a network."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from docsite import examples_page
from docsite.reference import public_names
from tests.architecture.sources import ROOT

pytestmark = [pytest.mark.submission, pytest.mark.xdist_group("docs site")]

ASSETS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href", "use": "href"}
"""Attributes with addresses that a browser asks for by itself."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site. A link to a page or a section that is missing is a warning, and ends the build."""
    target = tmp_path_factory.mktemp("site")
    build = (sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", target)
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


class _Addresses(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "link" and attributes.get("rel") in ("canonical", "prev", "next", "alternate"):
            return
        if tag in ASSETS and (address := attributes.get(ASSETS[tag])):
            self.found.append(address)


def assets_of(page: Path) -> Iterator[str]:
    parser = _Addresses()
    parser.feed(page.read_text())
    yield from parser.found


def test_no_page_asks_another_host_for_anything(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 100
    elsewhere = {
        f"{page.relative_to(site)}: {address}"
        for page in pages
        for address in assets_of(page)
        if re.match(r"(https?:)?//", address)
    }
    for sheet in site.rglob("*.css"):
        elsewhere |= {
            f"{sheet.name}: {found}"
            for found in re.findall(r"(?:url\(|@import)\s*['\"]?https?:[^)]*", sheet.read_text())
        }
    assert elsewhere == set()


def test_every_file_that_a_page_needs_is_there(site: Path) -> None:
    pages = [site / "index.html", site / "JOINS.html", site / "reference" / "dsl.html"]
    missing = [asset for page in pages for asset in assets_of(page) if not (page.parent / asset).is_file()]
    assert missing == []


def test_the_search_works_on_pages_that_are_opened_as_files(site: Path) -> None:
    script = (site / "search" / "search_index.js").read_text()
    index = json.loads(script.removeprefix("var __index = "))
    assert {"JOINS.html", "reference/dsl.html"} <= {document["location"] for document in index["docs"]}
    assert "assets/iframe-worker.js" in (site / "index.html").read_text()


def test_every_public_name_has_its_place_in_the_reference(site: Path) -> None:
    pages = "".join(page.read_text() for page in (site / "reference").glob("*.html"))
    assert [path for path in public_names().values() if f'id="{path}"' not in pages] == []


def test_every_example_is_shown_with_its_purpose_and_its_results(site: Path) -> None:
    page = (site / "EXAMPLES.html").read_text()
    for path in examples_page.programs():
        assert f'href="source/examples/{path.name}.html"' in page
        assert (site / "source" / "examples" / f"{path.name}.html").exists()
    assert page.count("<pre>") >= len(list((ROOT / "examples" / "outputs").glob("*.txt")))


def test_every_command_and_every_route_is_in_the_reference(site: Path) -> None:
    commands = (site / "reference" / "commands.html").read_text()
    assert {"penstock run", "penstock topic send", "penstock explain"} <= set(
        re.findall(r"<code>(penstock [a-z -]+)<", commands)
    )
    routes = (site / "reference" / "http.html").read_text()
    assert "GET /v1/applications/{app}/stores/{store}/range" in routes


def test_programs_that_read_text_find_every_page(site: Path) -> None:
    listed = (site / "llms.txt").read_text()
    links = re.findall(r"^- \[.+?\]\((.+?)\)", listed, re.MULTILINE)
    assert listed.startswith("# penstock\n\n> ")
    assert len(links) > 100
    assert [link for link in links if not (site / link).is_file()] == []
    whole = (site / "llms-full.txt").read_text()
    assert "# The first program in five minutes" in whole
    assert "## MissingTopicError" in whole
