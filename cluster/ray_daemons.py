"""Starts Ray's daemons out of reach of the signals that come for this program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from ray._private import services


@contextmanager
def daemons_in_sessions_of_their_own() -> Iterator[None]:
    """Within it, ``ray.init`` starts each daemon in a session of its own.

    A supervisor, ``timeout`` or a shell sends SIGTERM to the whole process group. With Ray's daemons in it the program
    could not commit and stop any more. They still end with this process, as Ray has it.
    """
    former = services.ConsolePopen
    services.ConsolePopen = partial(former, start_new_session=True)  # type: ignore[misc,assignment]  # untyped in Ray
    try:
        yield
    finally:
        services.ConsolePopen = former  # type: ignore[misc]  # untyped in Ray
