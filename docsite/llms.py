"""``llms.txt`` and ``llms-full.txt``: the pages as text for language models, by the convention of that name.

``llms.txt`` lists the pages of the navigation, each with the first sentence below its title. ``llms-full.txt`` has the
pages themselves, except the reference, which the docstrings have, and the internals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docsite.repository_links import DOCUMENTS, ROOT

LEFT_OUT = ("Internals",)
"""Tabs whose pages ``llms-full.txt`` lacks."""
_FILES = {page: path for path, page in DOCUMENTS.items()}


def write(site: Path, nav: Any, name: str, description: str) -> None:
    """Write both files into ``site``."""
    listed, whole = [f"# {name}\n\n> {description}\n"], []
    for tab in nav:
        ((title, entries),) = tab.items()
        listed.append(f"\n## {title}\n\n")
        for shown, page in _pages(entries):
            path = ROOT / _FILES.get(page, f"docs/{page}")
            if not path.exists():  # made from the code
                listed.append(f"- [{shown}]({page.replace('.md', '.html')})\n")
                continue
            text = path.read_text()
            listed.append(_line(page, text))
            if title not in LEFT_OUT:
                whole.append(f"<!-- {page} -->\n\n{text.strip()}\n")
    (site / "llms.txt").write_text("".join(listed))
    (site / "llms-full.txt").write_text("\n\n".join(whole))


def _pages(entries: Any, title: str = "") -> Iterator[tuple[str, str]]:
    """Yields the title in the navigation, and the file, of each page."""
    if isinstance(entries, str):
        yield title or entries, entries
    elif isinstance(entries, dict):
        for each, entry in entries.items():
            yield from _pages(entry, each)
    else:
        for entry in entries:
            yield from _pages(entry)


def _line(page: str, text: str) -> str:
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    paragraph = re.search(r"^(?![#>|`<\-*\s])(.+?)(?=\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    words = " ".join(paragraph[1].split()) if paragraph else ""
    first = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", re.split(r"(?<=[.:]) ", words)[0])
    html = page.replace("README.md", "index.md").replace(".md", ".html")
    return f"- [{title[1] if title else page}]({html}): {first}\n"
