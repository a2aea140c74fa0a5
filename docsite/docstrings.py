"""Turns the docstrings, which are reStructuredText, into Markdown for the reference.

The docstrings use little of it: roles such as ``:class:`KStream```, literal blocks after ``::``, and doctests.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import griffe

from docsite.reference import public_names

if TYPE_CHECKING:
    import ast

_ROLE = re.compile(r":(?:class|func|meth|attr|mod|exc|data):`~?(?P<name>[^`]+)`")
_DOCTEST = re.compile(r"(?:^(?P<indent> *)>>> .*\n(?:^ *\S.*\n?)*)", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Called by griffe for each object that it has read."""

    def __init__(self) -> None:
        self._public = public_names()

    def on_instance(self, *, node: ast.AST | griffe.ObjectNode, obj: griffe.Object, **_: Any) -> None:
        """Rewrites the docstring of ``obj``."""
        if obj.docstring is not None:
            obj.docstring.value = self.markdown(obj.docstring.value)

    def markdown(self, text: str) -> str:
        """Returns a docstring as Markdown."""
        text = _ROLE.sub(self._reference, text)
        text = re.sub(r"^ *::\n", "", text, flags=re.MULTILINE)
        text = re.sub(r"::$", ":", text, flags=re.MULTILINE)
        return _DOCTEST.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text)

    def _reference(self, role: re.Match[str]) -> str:
        shown, _, _ = role["name"].partition(" <")  # `shown <path>`
        name, _, attribute = shown.partition(".")
        path = self._public.get(name)
        shown = f"`{shown}`"
        return f"[{shown}][{path}{attribute and '.' + attribute}]" if path else shown
