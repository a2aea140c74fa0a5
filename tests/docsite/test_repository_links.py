"""Links between files of the repository, as links within the site."""

from __future__ import annotations

import pytest

from docsite.repository_links import adapted, source_page, targets


@pytest.mark.parametrize(
    ("path", "link", "expected"),
    [
        ("docs/JOINS.md", "TABLES.md", "TABLES.md"),
        ("docs/JOINS.md", "TABLES.md#suppress", "TABLES.md#suppress"),
        ("docs/JOINS.md", "#nulls", "#nulls"),
        ("docs/JOINS.md", "https://kafka.apache.org/", "https://kafka.apache.org/"),
        ("docs/JOINS.md", "absent.md", "absent.md"),
        ("docs/METRICS.md", "../CONTRIBUTING.md#recipes", "contributing.md#recipes"),
        ("docs/METRICS.md", "../deploy/Dockerfile", "source/deploy/Dockerfile.md"),
        ("docs/METRICS.md", "../actors", "source/actors/index.md"),
        ("docs/decisions/0001-libraries.md", "../LATENCY.md", "../LATENCY.md"),
        ("README.md", "docs/JOINS.md", "JOINS.md"),
        ("README.md", "docs/decisions/README.md", "decisions/README.md"),
        ("README.md", "LICENSE", "source/LICENSE.md"),
    ],
)
def test_a_link_leads_to_the_page_that_shows_its_file(path: str, link: str, expected: str) -> None:
    assert adapted(f"See [this]({link}).", path) == f"See [this]({expected})."


def test_an_image_of_html_is_found_where_the_site_has_it() -> None:
    image = '<img src="{}" width="420" alt="(a picture)">'
    assert adapted(image.format("docs/pictures/a.svg"), "README.md") == image.format("docs/pictures/a.svg")
    adapted_to_site = adapted(image.format("docs/pictures/word-count.svg"), "README.md")
    assert adapted_to_site == image.format("pictures/word-count.svg")


def test_text_in_code_that_looks_like_a_link_is_not_changed() -> None:
    text = "```\n[a](../README.md)\n```\n"
    assert adapted(text, "docs/JOINS.md") == text
    assert targets(text + "[b](../LICENSE)", "docs/JOINS.md") == ["LICENSE"]


def test_a_file_is_shown_as_it_is_and_a_folder_by_its_files() -> None:
    assert "```python\n" in source_page("actors/orders.py")
    assert "- `actors/orders.py`\n" in source_page("actors")
