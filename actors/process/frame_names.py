"""Names the frames of stacks: function, file and line. Also tells the program's files from those of others."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

from penstock.actors.flame import FlameOwner

_LONGEST_FUNCTION, _LONGEST_FILE = 200, 160
_LAST_PARTS = 3
_PENSTOCK = str(Path(__file__).parents[2])
_PYTHON = sysconfig.get_path("stdlib")
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_TYPED = ("<stdin>", "<ipython", "<input>")
"""Beginnings of the names that code has which was typed at a prompt."""


class FrameNames:
    """Names of frames, for one process. ``owners``: the owners of the code in the files that were named so far."""

    def __init__(self) -> None:
        self.owners: dict[str, FlameOwner] = {}
        self._short: dict[str, str] = {}
        # The longest first, so that a file is named by the innermost of the folders from which Python imports.
        self._roots = sorted({f"{root.rstrip('/')}/" for root in sys.path if root}, key=len, reverse=True)

    def name(self, function: str, file: str, line: int | str) -> str:
        """Returns a frame as text: ``function (package/file.py:12)``."""
        short = self._short.get(file)
        if short is None:
            short = self._short[file] = self._shortened(file)
            self.owners.setdefault(short, owner_of(file))
        return f"{function[:_LONGEST_FUNCTION]} ({short}:{line})"

    def _shortened(self, file: str) -> str:
        root = next((root for root in self._roots if file.startswith(root)), None)
        return (file[len(root) :] if root else "/".join(file.split("/")[-_LAST_PARTS:]).lstrip("/"))[-_LONGEST_FILE:]


def owner_of(file: str) -> FlameOwner:
    """Returns the owner of the code in a file, by its path."""
    if _within(file, _PENSTOCK):
        return "penstock"
    if _INSTALLED.intersection(Path(file).parts):
        return "package"
    if _within(file, _PYTHON) or (file.startswith("<") and not file.startswith(_TYPED)):
        return "python"
    return "program"


def _within(file: str, folder: str) -> bool:
    return file.startswith(f"{folder}/")
