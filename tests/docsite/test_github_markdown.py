"""Pages that were written for GitHub, as Python-Markdown takes them."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import markdown
import pytest
from markdown_it import MarkdownIt

from docsite.github_markdown import adapted
from tests.architecture.sources import ROOT


def text(lines: str) -> str:
    return textwrap.dedent(lines).strip("\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            """
            1. One,
               two.

               ```python
               if x:
                   y
               ```

               Three.
               - four
                 five
            2. Six.

               Seven.
            3. Eight.
            4. Nine.
            """,
            """
            1. One,
                two.

                ```python
                if x:
                    y
                ```

                Three.

                - four
                    five

            2. Six.

                Seven.

            3. Eight.
            4. Nine.
            """,
            id="the content of an item is at the column of its text",
        ),
        pytest.param(
            """
            A paragraph:
            - an item
            goes on
            """,
            """
            A paragraph:

            - an item
                goes on
            """,
            id="a list follows a paragraph",
        ),
        pytest.param(
            """
            It ended in
            2026. Then it began.
            """,
            """
            It ended in
            2026. Then it began.
            """,
            id="a number in a paragraph begins no list",
        ),
        pytest.param(
            """
            - an item

            A paragraph
              of two lines.
            """,
            """
            - an item

            A paragraph
              of two lines.
            """,
            id="a paragraph ends a list",
        ),
        pytest.param(
            r"""
            A table:
            | a | b |
            |---|---|
            | `x\|y` | z |
            """,
            """
            A table:

            | a | b |
            |---|---|
            | `x|y` | z |
            """,
            id="a table follows a paragraph, and a bar in code is one",
        ),
        pytest.param(
            r"""
            ```
            - no item
              of a list
            | no \| table
            ```
            """,
            r"""
            ```
            - no item
              of a list
            | no \| table
            ```
            """,
            id="code stays as it is",
        ),
    ],
)
def test_markdown_of_github_becomes_that_of_python_markdown(before: str, after: str) -> None:
    assert adapted(text(before)) == text(after)


PAGES = sorted(ROOT.glob("docs/**/*.md"))
TAGS = re.compile(r"<(li|ul|ol|table|tr|td|th|pre|h[1-6]|strong|em|a) ?")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_the_lists_tables_and_code_that_github_shows(page: Path) -> None:
    """Rendered by markdown-it, which follows the rules of GitHub, and by Python-Markdown as ``mkdocs.yml`` sets it."""
    text = re.sub(r"\A---\n.*?\n---\n", "", page.read_text(), flags=re.DOTALL)
    expected = MarkdownIt("commonmark").enable("table").render(text)
    rendered = markdown.markdown(adapted(text), extensions=["tables", "pymdownx.superfences"])
    assert TAGS.findall(rendered) == TAGS.findall(expected)
