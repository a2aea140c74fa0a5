"""Operations log: requests that were refused because of their senders, and those that changed something.

Each is one line of the log, with ``who`` (the token's name, None without one), ``address``, ``request`` and ``status``.
No token, query or body is in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from starlette.types import Scope

from penstock.api.limits import Rate
from penstock.common.log import logger

LINES_PER_SECOND = 10
"""Maximum lines per second about refusals, which any client can cause. The next line has the number of omitted ones."""
_LONGEST_PATH = 200


class OperationsLog:
    """The operations log of one server. ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = logger(__name__)
        self._rate = Rate(LINES_PER_SECOND, clock)
        self._left_out = 0

    def refused(self, scope: Scope, who: str | None, status: int, why: str) -> None:
        """Log a request that its sender may not make; ``why`` is the kind of its problem."""
        if self._rate.wait_s():
            self._left_out += 1
            return
        more = {"more_since_the_last_line": self._left_out} if self._left_out else {}
        self._left_out = 0
        self._log.warning("request refused", **_of(scope, who), status=status, why=why, **more)

    def operated(self, scope: Scope, who: str | None, status: int) -> None:
        """Log a request that changes something, once it is answered with ``status``."""
        self._log.info("operation", **_of(scope, who), status=status)


def _of(scope: Scope, who: str | None) -> dict[str, object]:
    client = scope.get("client")
    path = scope["path"] if len(scope["path"]) <= _LONGEST_PATH else f"{scope['path'][:_LONGEST_PATH]}…"
    return {"who": who, "address": client[0] if client else None, "request": f"{scope['method']} {path}"}
