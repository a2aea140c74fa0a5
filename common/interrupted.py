"""Handles Ctrl-C while the command ``penstock`` is still being imported, before its own code can catch it."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing takes as long to import as all that came before it
if TYPE_CHECKING:
    from types import TracebackType


def end_without_a_traceback() -> None:
    """Have the command print nothing for a Ctrl-C that is not caught; its exit code remains that of an interrupt. Does
    nothing in other programs."""
    if os.path.basename(sys.argv[0]).removesuffix(".exe") != "penstock":  # noqa: PTH119  # as early as can be
        return
    former = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            former(kind, error, traceback)

    sys.excepthook = show


end_without_a_traceback()
