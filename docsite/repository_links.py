"""Links of a page to files of the repository, as GitHub follows them, made into links within the site.

A page of ``docs/`` may link to any file of the repository. The site has the documents of the root as pages of their
own, and shows each other file that a page links to as it is: the site is whole without a network.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Documents of the root, and the pages of the site that show them."""
SOURCES = "source"
"""The folder of the site with the files that pages link to."""
LANGUAGES = {".py": "python", ".pyx": "python", ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".toml": "toml"}
_FENCED = re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2[`~]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"""(?:(?<=\]\()|(?<=<img src="))(?P<target>[^)"\s#:]+)(?P<section>#[^)"\s]*)?(?=[)"])""")


def page_of(path: str) -> str:
    """Returns the site's file that shows ``path`` of the repository."""
    if path in DOCUMENTS:
        return DOCUMENTS[path]
    if path.startswith("docs/") and not (ROOT / path).is_dir():
        return path.removeprefix("docs/")
    name = f"{SOURCES}/{path.removeprefix('docs/')}"
    return f"{name}/index.md" if (ROOT / path).is_dir() else f"{name}.md"


def targets(text: str, path: str) -> list[str]:
    """Returns the files and folders of the repository to which the document at ``path`` links, with ``text``."""
    found: list[str] = []

    def noted(target: str) -> str:
        found.append(target)
        return target

    _replaced(text, path, noted)
    return found


def adapted(text: str, path: str) -> str:
    """Returns ``text`` of the document at ``path`` of the repository with links that lead to pages of the site."""
    here = posixpath.dirname(page_of(path))
    return _replaced(text, path, lambda target: posixpath.relpath(page_of(target), here or "."))


def _replaced(text: str, path: str, replacement: Callable[[str], str]) -> str:
    folder = posixpath.dirname(path)

    def replaced(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link["target"]))
        # MkDocs itself reports a link that leads nowhere, by the name that the author wrote.
        return (replacement(target) if (ROOT / target).exists() else link["target"]) + (link["section"] or "")

    done, end = [], 0
    for fenced in _FENCED.finditer(text):
        done += [_LINK.sub(replaced, text[end : fenced.start()]), fenced[0]]
        end = fenced.end()
    return "".join([*done, _LINK.sub(replaced, text[end:])])


def source_page(path: str) -> str:
    """Returns a page that shows a file, or lists the files of a folder."""
    shown = ROOT / path
    head = f"---\nsearch:\n  exclude: true\n---\n\n# `{path}`\n\n"
    if shown.is_dir():
        names = sorted(file.relative_to(ROOT).as_posix() for file in shown.rglob("*.py"))
        return head + "".join(f"- `{name}`\n" for name in names)
    text = shown.read_text()
    fence = "`" * (1 + max(map(len, re.findall(r"`{3,}", text)), default=2))
    return f"{head}{fence}{LANGUAGES.get(shown.suffix, 'text')}\n{text.rstrip()}\n{fence}\n"
