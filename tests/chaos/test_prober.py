"""The prober asks the HTTP server all the time, and notes what the server must not answer, and nothing else."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from penstock.testing.chaos.prober import Prober
from tests.waiting import PATIENCE_S

ABSENT = 404, {"type": "urn:penstock:problem:absent-key"}
NO_STORE = 404, {"type": "urn:penstock:problem:unknown-store"}
BUSY = 503, {"type": "urn:penstock:problem:not-ready"}
RUNNING = 200, {"state": "RUNNING"}


def count(number: int) -> tuple[int, Any]:
    return 200, {"value": number}


@contextmanager
def answering(look_ups: list[tuple[int, Any] | None], state: tuple[int, Any]) -> Iterator[tuple[int, threading.Event]]:
    """A server that gives these answers to look-ups, one after the other; None cuts the connection. Yields its port,
    and an event that is set when all are given."""
    given = threading.Event()
    left = list(look_ups)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if "/stores/" not in self.path:
                self._answer(*state)
                return
            if not left:
                given.set()
                self._answer(*BUSY)
            elif (answer := left.pop(0)) is None:
                self.close_connection = True
            else:
                self._answer(*answer)

        def _answer(self, status: int, body: Any) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1], given
        finally:
            server.shutdown()
            thread.join()


def asked(look_ups: list[tuple[int, Any] | None], state: tuple[int, Any] = RUNNING) -> Prober:
    with answering(look_ups, state) as (port, given), pytest.MonkeyPatch.context() as patched:
        patched.setattr("penstock.testing.chaos.prober._TIMEOUT_S", PATIENCE_S)
        prober = Prober(port, "app", ("counts", ["a"]))
        prober.ask_until(given, 1)
    return prober


def test_counts_that_grow_and_an_application_that_is_away_for_a_moment_are_right() -> None:
    prober = asked([ABSENT, count(1), BUSY, None, count(1), count(5)])
    assert prober.violations == []
    assert prober.ended is None
    assert prober.answers["answered"] == 4
    assert prober.answers["asked to come again"] >= 1
    assert prober.answers["not answered"] == 1


@pytest.mark.parametrize(
    ("look_ups", "message"),
    [
        ([count(5), count(4)], "the committed number of a went back from 5 to 4"),
        ([count(5), ABSENT], "the committed number of a went back from 5 to 0"),
        ([(500, {"title": "oh"})], "a was answered by 500: {'title': 'oh'}"),
        ([NO_STORE], "a was answered by 404: {'type': 'urn:penstock:problem:unknown-store'}"),
    ],
)
def test_a_count_that_goes_back_and_any_error_but_503_is_reported(
    look_ups: list[tuple[int, Any] | None], message: str
) -> None:
    assert asked(look_ups).violations == [message]


def test_the_end_of_the_application_is_noticed_with_its_reason() -> None:
    prober = asked([count(1)] * 30, (200, {"state": "ERROR", "error": "no room"}))
    assert prober.ended == "ERROR: no room"


def test_an_error_in_place_of_the_state_is_reported() -> None:
    assert "the state was answered by 500: {}" in asked([count(1)] * 12, (500, {})).violations
