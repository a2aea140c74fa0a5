"""Leaves out what Ray itself prints on the standard output of a program that has connected to it."""

from __future__ import annotations

import importlib
from typing import Any


def leave_out_rays_lines() -> None:
    """Keep Ray from printing, in this process, what has become of its processes: some thirty lines of each that is
    killed, between those of a harness that kills them by design. Ray prints them whatever ``log_to_driver`` and
    ``logging_level`` are, and has no setting for it; they are in its logs."""
    worker: Any = importlib.import_module("ray._private.worker")
    worker.print_to_stdstream = lambda data, ignore_prefix: None
