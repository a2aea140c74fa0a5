"""Operations log: the operations by which commands and programs change an application through Ray: pause, scale, stop.

They are in the coordinator's log. The calling process names its user itself: Ray knows which processes may use the
cluster, but not their users.
"""

from __future__ import annotations

import getpass
import socket
from typing import Any


def caller() -> str:
    """The user of this process and its machine, as ``user@host``."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # the user id has no name here, as in a container
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def log_operation(coordinator: Any | None, what: str, outcome: str) -> None:
    """Have the coordinator log that this process did ``what``, and the outcome. Does not wait. Does nothing without a
    coordinator."""
    if coordinator is not None:
        coordinator.operated.options(max_task_retries=0).remote(caller(), what, outcome)
