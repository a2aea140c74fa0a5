"""Audit lines of what commands and programs do to an application through Ray: pause, scale, stop.

They are in the coordinator's log. The calling process names its user itself: Ray knows which processes may use the
cluster, and not whose they are.
"""

from __future__ import annotations

import getpass
import socket
from typing import Any


def caller() -> str:
    """The user of this process and its machine, as ``user@host``."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # the user's number has no name here, as in a container
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def audit(coordinator: Any | None, what: str, outcome: str) -> None:
    """Have the coordinator log that this process did ``what``, and what came of it. Waits for nothing; without a
    coordinator there is nobody to log it."""
    if coordinator is not None:
        coordinator.operated.options(max_task_retries=0).remote(caller(), what, outcome)
