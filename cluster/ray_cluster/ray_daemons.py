"""Starts Ray's daemons out of reach of the signals that are sent to this program's process group."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from ray._private import services


@contextmanager
def daemons_in_sessions_of_their_own() -> Iterator[None]:
    """Within it, ``ray.init`` starts each daemon in a session of its own.

    A supervisor, ``timeout`` or a shell sends SIGTERM to the whole process group. If Ray's daemons were in it, the
    program could not commit any more. They still end with this process: on Linux the kernel ends them. Elsewhere Ray
    ends the process group, so the daemons stay in it.
    """
    if sys.platform != "linux":
        yield
        return
    former = services.ConsolePopen
    services.ConsolePopen = partial(former, start_new_session=True)  # type: ignore[misc,assignment]  # untyped in Ray
    try:
        yield
    finally:
        services.ConsolePopen = former  # type: ignore[misc]  # untyped in Ray
