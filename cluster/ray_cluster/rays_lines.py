"""Lines that Ray itself prints in a process that has connected to it."""

from __future__ import annotations

import importlib
import os
from typing import Any

_RETRIED = "There are infinite retries remaining"


def plain_rays_lines() -> None:
    """Have Ray print without colours, and no line for each call that it repeats while the coordinator is restarted.

    Ray has a setting for the colours alone. It passes what it prints to one function, which this replaces.
    """
    os.environ.setdefault("RAY_COLOR_PREFIX", "0")
    worker: Any = importlib.import_module("ray._private.worker")
    if getattr(worker.print_to_stdstream, "penstock", False):
        return
    printed = worker.print_to_stdstream

    def print_others(data: dict[str, Any], ignore_prefix: bool = False) -> None:
        lines = [line for line in data.get("lines", ()) if _RETRIED not in line]
        if lines:
            printed({**data, "lines": lines}, ignore_prefix=ignore_prefix)

    print_others.penstock = True  # type: ignore[attr-defined]  # so that it is replaced once
    worker.print_to_stdstream = print_others
