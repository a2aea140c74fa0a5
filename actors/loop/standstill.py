"""Prevents a stream actor without a lease from writing, until its coordinator answers again."""

from __future__ import annotations

from collections.abc import Callable

from structlog.stdlib import BoundLogger

from penstock.actors.commits.guarantee import Guarantee
from penstock.actors.loop.lease import Lease


class Standstill:
    """The stream loop calls :meth:`enforce` once per round. Without a lease the loop answers queries and takes orders.
    It processes no record, takes no step of a commit or of an assignment, and writes nothing."""

    def __init__(self, lease: Lease, guarantee: Guarantee, clock_s: Callable[[], float], log: BoundLogger) -> None:
        self._lease = lease
        self._guarantee = guarantee
        self._clock_s = clock_s
        self._log = log
        self._since_s: float | None = None
        self._is_withheld = False
        self.expirations = 0
        """Number of leases that have ended so far, including the present one."""

    @property
    def lasts(self) -> bool:
        """True while processing is paused because the lease is over."""
        return self._since_s is not None

    def end_if_over(self) -> None:
        """At the end of the lease, withdraws the records that are on their way to a broker, and makes the producer
        refuse more. Called each second by another thread than the loop's: the loop may be in a long record, or wait
        for room in the queue of its producer, or for an answer from Kafka."""
        if self._lease.is_over:
            self._guarantee.withhold()
            # Set it last: the loop, which runs meanwhile, must not miss that the producer is withheld.
            self._is_withheld = True

    def enforce(self) -> bool:
        """Returns True while the lease is over: then the loop must not continue. At the end of the lease, it withdraws
        the records that are on their way to a broker."""
        if not self._lease.is_over:
            if self._is_withheld:
                self._is_withheld = False
                self._guarantee.resume()
            if self._since_s is not None:
                waited_s = round(self._clock_s() - self._since_s, 1)
                self._log.info("lease renewed: processing continues, the coordinator answers", waited_s=waited_s)
                self._since_s = None
            return False
        if self._since_s is None:
            self._since_s = self._clock_s()
            self.expirations += 1
            self._log.warning(
                "lease expired: processing paused until the coordinator answers",
                why="the coordinator may have given the tasks to another actor",
            )
            self._guarantee.withhold()
            self._is_withheld = True
        return True
