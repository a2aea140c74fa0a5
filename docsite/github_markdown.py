"""Turns GitHub's Markdown into the Markdown that Python-Markdown reads.

They differ in four things. GitHub takes the content of a list item at the column of its text, Python-Markdown at four
columns for each level. GitHub lets a list or a table follow a paragraph without a blank line. In a table GitHub wants
``|`` in code escaped, Python-Markdown shows the backslash. Python-Markdown merges two lists if there is no text between
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_ITEM = re.compile(r"(?P<indent> *)(?P<marker>[-*+]|(?P<number>\d+)[.)])(?P<space> +)(?=\S)")
_FENCE = re.compile(r" *(?P<mark>`{3,}|~{3,})")
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")


def adapted(text: str) -> str:
    """Returns ``text`` for Python-Markdown."""
    return "\n".join(_Lines().adapted(text.split("\n")))


class _Lines:
    """One pass over the lines of a page."""

    def __init__(self) -> None:
        self._columns: list[int] = []
        """The columns of the text of the list items that are open, outermost first."""
        self._numbered: list[bool] = []
        """For each of them, True if its list is numbered."""
        self._fence = ""
        self._before = ""
        self._block: int | None = None
        """The depth of the item with which the lines since the last blank one begin; None if they begin with text."""

    def adapted(self, lines: list[str]) -> Iterator[str]:
        for line in lines:
            if not self._before.strip():
                self._block = None
            yield from self._of(line)
            self._before = line

    def _of(self, line: str) -> Iterator[str]:
        fence = _FENCE.match(line)
        if self._fence:
            if fence and fence["mark"].startswith(self._fence) and not line.strip().strip(self._fence[0]):
                self._fence = ""
            yield self._moved(line)
            return
        item = _ITEM.match(line)
        if item and self._is_item(item):
            yield from self._item(line, item)
            return
        if line.strip():
            self._close(line)
        if fence:
            self._fence = fence["mark"]
        if line.startswith("|"):
            if self._before.strip() and not self._before.startswith("|"):
                yield ""
            line = _CODE.sub(lambda code: code[0].replace(r"\|", "|"), line)
        yield self._moved(line)

    def _is_item(self, item: re.Match[str]) -> bool:
        """A number other than 1 does not begin a list in the middle of a paragraph."""
        return bool(self._columns) or not self._before.strip() or item["number"] in (None, "1")

    def _item(self, line: str, item: re.Match[str]) -> Iterator[str]:
        is_numbered, sibling = item["number"] is not None, None
        while self._columns and len(item["indent"]) < self._columns[-1]:
            self._columns.pop()
            sibling = self._numbered.pop()
        depth = len(self._columns)
        if sibling not in (None, is_numbered):
            yield from ("", "    " * depth + "<!-- another list -->", "")
        if self._before.strip() and (self._block is None or self._block > depth):
            yield ""
            self._block = depth
        elif not self._before.strip():
            self._block = depth
        yield "    " * len(self._columns) + item["marker"] + " " + line[item.end() :]
        self._columns.append(item.end())
        self._numbered.append(is_numbered)

    def _close(self, line: str) -> None:
        """Ends the items to which ``line`` does not belong; a line without indent may continue a paragraph."""
        column = len(line) - len(line.lstrip(" "))
        if self._before.strip() and not _FENCE.match(line) and not line.startswith(("#", "|")):
            return
        while self._columns and column < self._columns[-1]:
            self._columns.pop()
            self._numbered.pop()

    def _moved(self, line: str) -> str:
        if not self._columns or not line.strip():
            return line
        column = len(line) - len(line.lstrip(" "))
        return "    " * len(self._columns) + line[min(column, self._columns[-1]) :]
