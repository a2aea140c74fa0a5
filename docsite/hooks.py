"""The functions that MkDocs calls while it builds the site: the pages that are not files of ``docs/``, and links."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docsite import (
    examples_page,
    github_markdown,
    llms,
    reference,
    reference_commands,
    reference_http,
    repository_links,
)
from docsite.repository_links import DOCUMENTS, ROOT

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

from mkdocs.structure.files import File, InclusionLevel

_BESIDE = re.compile(r"<!-- beside -->\n(.*?)\n<!-- end -->", re.DOTALL)
"""Blocks of code that the site shows beside each other, and GitHub below each other."""
_PATHS = {page: path for path, page in DOCUMENTS.items()}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts pages that the navigation does not name in the place of its ``*``, and takes the site's address from the
    project."""
    config.nav = _expanded(config.nav, set(_named(config.nav)))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    config.site_url = project.get("urls", {}).get("Documentation")
    return config


def _named(nav: Any) -> Iterator[str]:
    """Yields the pages of a navigation."""
    for entry in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from _named(entry)
    if isinstance(nav, str):
        yield nav


def _expanded(nav: Any, named: set[str]) -> Any:
    if isinstance(nav, dict):
        return {title: _expanded(entry, named) for title, entry in nav.items()}
    if not isinstance(nav, list):
        return nav
    expanded: list[Any] = []
    for entry in nav:
        if isinstance(entry, str) and "*" in entry:
            pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").glob(entry)}
            expanded += sorted(pages - named)
        else:
            expanded.append(_expanded(entry, named))
    return expanded


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the documents of the root, the files to which pages link, and the pages that are made from the code."""
    for path, page in DOCUMENTS.items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text()))
    made = {"reference/commands.md": reference_commands.page(), "reference/http.md": reference_http.page()}
    for page, text in (reference.pages() | examples_page.pages() | made).items():
        files.append(File.generated(config, page, content=text))
    shown = {
        target
        for file in files.documentation_pages()
        if (ROOT / _path(file.src_uri)).is_file()
        for target in repository_links.targets(file.content_string, _path(file.src_uri))
    }
    for target in sorted({*shown, *examples_page.shown()}):
        page = repository_links.page_of(target)
        if files.get_file_from_path(page) is None:
            text = repository_links.source_page(target)
            files.append(File.generated(config, page, content=text, inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_post_build(config: MkDocsConfig) -> None:
    """Writes ``llms.txt`` and ``llms-full.txt``."""
    llms.write(Path(config.site_dir), config.nav, str(config.site_name), str(config.site_description))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Adapts a page that was written for GitHub."""
    path = _path(page.file.src_uri)
    if (ROOT / path).is_file():
        markdown = repository_links.adapted(markdown, path)
    return _BESIDE.sub(r'<div class="beside" markdown>\n\1\n</div>', github_markdown.adapted(markdown))


def _path(page: str) -> str:
    """Returns the file of the repository that a page shows, if there is one."""
    return _PATHS.get(page, f"docs/{page}")
