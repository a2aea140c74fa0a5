"""Asks the HTTP server continuously and expects right answers in spite of the faults."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.cluster.read_side import ApplicationState
from penstock.testing.chaos.http_client import NOT_FOUND, OK, UNAVAILABLE, HttpClient, NotAnsweredError, problem

_EACH_S = 0.02
_TIMEOUT_S = 5.0
_STATE_EVERY = 10
_ABSENT = "urn:penstock:problem:absent-key"


@dataclass
class Prober:
    """Counts the answers by outcome, and keeps those that must not have been. ``counting_up``: the store and the keys
    that are asked for; ``ended``: the reason if the application has ended, else None."""

    port: int
    application_id: str
    counting_up: tuple[str, Sequence[str]] | None
    answers: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    ended: str | None = None

    def ask_until(self, stopped: threading.Event, seed: int) -> None:
        """Ask for one key after the other, at random; now and then for the application's state."""
        chance = random.Random(seed)
        committed: dict[str, int] = {}
        asked = 0
        with HttpClient(self.port, _TIMEOUT_S) as client:
            while not stopped.wait(_EACH_S) and self.ended is None:
                asked += 1
                try:
                    if self.counting_up is None or asked % _STATE_EVERY == 0:
                        self._state(client)
                    else:
                        store, keys = self.counting_up
                        self._look_up(client, store, chance.choice(keys), committed)
                except NotAnsweredError:
                    self.answers["not answered"] += 1

    def _state(self, client: HttpClient) -> None:
        answer = client.get("v1", "applications", self.application_id)
        if answer.status == OK:
            self.answers["told the state"] += 1
            if not ApplicationState(answer.body["state"]).is_live:
                self.ended = f"{answer.body['state']}: {answer.body.get('error')}"
        elif answer.status != UNAVAILABLE:
            self._wrong(f"the state was answered by {answer.status}: {answer.body}")

    def _look_up(self, client: HttpClient, store: str, name: str, committed: dict[str, int]) -> None:
        """Look up a committed number, which never goes back; one not committed yet may be lost and counted again."""
        path = ("v1", "applications", self.application_id, "stores", store, "keys", name)
        answer = client.get(*path, isolation="committed")
        before = committed.get(name, 0)
        if answer.status == UNAVAILABLE:
            self.answers["asked to come again"] += 1
            return
        absent = answer.status == NOT_FOUND and problem(answer) == _ABSENT
        if answer.status != OK and not absent:
            self._wrong(f"{name} was answered by {answer.status}: {answer.body}")
            return
        self.answers["answered"] += 1
        number = 0 if absent else answer.body["value"]
        if number < before:
            self._wrong(f"the committed number of {name} went back from {before} to {number}")
        committed[name] = number

    def _wrong(self, what: str) -> None:
        self.answers["answered wrongly"] += 1
        self.violations.append(what)
