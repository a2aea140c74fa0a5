"""Asks the HTTP server all the time, as a client would that never heard of faults."""

from __future__ import annotations

import random
import threading
from collections import Counter
from dataclasses import dataclass, field

import httpx

from penstock.cluster.read_side import ApplicationState
from tests.chaos import program
from tests.chaos.feeder import KEYS, key

_EACH_S = 0.02
_TIMEOUT_S = 5.0
_STATE_EVERY = 10
_ABSENT = "urn:penstock:problem:absent-key"


@dataclass
class Prober:
    """What was answered, by outcome, and what must not have been. ``ended``: the application is done for, and why."""

    base_url: str
    application_id: str
    answers: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    ended: str | None = None

    def ask_until(self, stopped: threading.Event, seed: int) -> None:
        """One look-up after the other, at random; now and then the application's state."""
        chance = random.Random(seed)
        committed: dict[str, int] = {}
        asked = 0
        with httpx.Client(base_url=self.base_url, timeout=_TIMEOUT_S) as client:
            while not stopped.wait(_EACH_S) and self.ended is None:
                asked += 1
                try:
                    if asked % _STATE_EVERY == 0:
                        self._state(client)
                    else:
                        self._look_up(client, key(chance.randrange(KEYS)), committed)
                except httpx.TransportError:
                    self.answers["not answered"] += 1

    def _state(self, client: httpx.Client) -> None:
        answer = client.get(f"/v1/applications/{self.application_id}")
        if answer.status_code == httpx.codes.OK:
            body = answer.json()
            if not ApplicationState(body["state"]).is_live:
                self.ended = f"{body['state']}: {body.get('error')}"
        elif answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
            self._wrong(f"the state was answered by {answer.status_code}: {answer.text}")

    def _look_up(self, client: httpx.Client, name: str, committed: dict[str, int]) -> None:
        """A committed count never goes back; what is not committed yet may be lost and counted again."""
        path = f"/v1/applications/{self.application_id}/stores/{program.COUNTS}/keys/{name}"
        answer = client.get(path, params={"isolation": "committed"})
        before = committed.get(name, 0)
        if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            self.answers["asked to come again"] += 1
            return
        absent = answer.status_code == httpx.codes.NOT_FOUND and answer.json()["type"] == _ABSENT
        if answer.status_code != httpx.codes.OK and not absent:
            self._wrong(f"{name} was answered by {answer.status_code}: {answer.text}")
            return
        self.answers["answered"] += 1
        count = 0 if absent else answer.json()["value"]
        if count < before:
            self._wrong(f"the committed count of {name} went back from {before} to {count}")
        committed[name] = count

    def _wrong(self, what: str) -> None:
        self.answers["answered wrongly"] += 1
        self.violations.append(what)
