"""Warns the user early, and once, that no broker answers, and reports once that one answers again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from penstock.common.errors import BrokerUnreachableError, KafkaRefusedError
from penstock.common.log import logger


class Reachable(Protocol):
    """The part of :class:`~penstock.kafka.contracts.Admin` that is needed here."""

    def reach(self) -> None:
        """Return when a broker answers."""


class BrokerWatch:
    """Asks the broker at each ``check``. ``clock`` gives seconds since 1970. One thread at a time."""

    def __init__(
        self, application_id: str, bootstrap_servers: str, admin: Callable[[], Reachable], clock: Callable[[], float]
    ) -> None:
        self.reason: str | None = None
        """The explanation for users while no broker answers; None while one does."""
        self._address = bootstrap_servers
        self._admin = admin
        self._refused = False
        self._client: Reachable | None = None
        self._clock = clock
        self._answered_s = clock()
        self._log = logger(__name__).bind(application=application_id)

    def check(self) -> None:
        """Ask once. Raises StreamsError, except if no broker answers or the broker refuses the application."""
        try:
            # The client that got no answer may itself be stuck (``kafka/fetch_watch.py``).
            self._client = self._client or self._admin()
            self._client.reach()
        except (BrokerUnreachableError, KafkaRefusedError) as error:
            self._client = None
            self._note(error)
            return
        now = self._clock()
        if self.reason is not None:
            self._log.info("broker answers again", address=self._address, away_s=round(now - self._answered_s, 1))
        self.reason, self._answered_s = None, now

    def _note(self, error: BrokerUnreachableError | KafkaRefusedError) -> None:
        refused = isinstance(error, KafkaRefusedError)
        if self.reason is not None and refused == self._refused:
            return
        self._refused = refused
        since = datetime.fromtimestamp(self._answered_s, UTC).isoformat(timespec="seconds")
        why = f"no broker answers at {self._address} since {since}"
        if refused:
            why = f"the brokers have refused this application since {since}: {error}"
        self.reason = f"{why}; work resumes when one does"
        self._log.warning(
            "broker refuses the application" if refused else "broker unreachable",
            address=self._address,
            since=since,
            meanwhile="nothing is read, written or committed; penstock keeps asking and resumes automatically",
            error=str(error),
        )
