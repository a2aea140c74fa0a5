"""Keeps a stream actor without a lease from writing, until it hears of its coordinator again."""

from __future__ import annotations

from collections.abc import Callable

from structlog.stdlib import BoundLogger

from penstock.actors.guarantee import Guarantee
from penstock.actors.lease import Lease


class Standstill:
    """Asked by the stream loop once per round. It answers queries and takes orders meanwhile; it processes no record,
    takes no step of a commit or of an assignment, and writes nothing."""

    def __init__(self, lease: Lease, guarantee: Guarantee, clock_s: Callable[[], float], log: BoundLogger) -> None:
        self._lease = lease
        self._guarantee = guarantee
        self._clock_s = clock_s
        self._log = log
        self._since_s: float | None = None

    def lasts(self) -> bool:
        """True while the lease is over. When it ends, what is on its way to a broker is given up."""
        if not self._lease.is_over:
            if self._since_s is not None:
                self._log.info("coordinator heard of again", stood_still_s=round(self._clock_s() - self._since_s, 1))
                self._since_s = None
            return False
        if self._since_s is None:
            self._since_s = self._clock_s()
            self._log.warning("coordinator not heard of, nothing is written until it is: its tasks may be another's")
            self._guarantee.withhold()
        return True
