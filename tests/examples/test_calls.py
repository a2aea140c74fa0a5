"""The examples that call out: a service over HTTP, and a model that takes batches."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import penstock as ps
from examples import enrichment, scored_in_batches

strings = ps.Serdes.string()


class Profiles(BaseHTTPRequestHandler):
    """Knows Ada, and is busy when it is asked for the first time."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if len(self.asked) == 1:
            self.send_response(503)
            self.send_header("Retry-After", "1")
            self.end_headers()
        elif self.path == "/users/ada":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"city": "London"}')
        else:
            self.send_response(404)
            self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    Profiles.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Profiles)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(enrichment, "SERVICE", f"http://127.0.0.1:{server.server_port}")
    yield Profiles.asked
    server.shutdown()
    server.server_close()


def test_a_busy_service_is_asked_again_and_a_known_answer_is_not_asked_for(asked: list[str]) -> None:
    with ps.TopologyTestDriver(enrichment.builder.build()) as driver:
        visits = driver.create_input_topic("visits", strings, strings)
        results = driver.create_output_topic("visits-with-profiles", strings, enrichment.visits)
        for user in ("ada", "nobody", "ada"):
            visits.pipe_input("/tea", user)
        found = [value for _, value in results.read_key_values_to_list()]
    ada = enrichment.Visit("ada", "London")
    assert found == [ada, enrichment.Visit("nobody", None), ada]
    assert asked == ["/users/ada", "/users/ada", "/users/nobody"]


def test_a_model_scores_transfers() -> None:
    transfer, scored = scored_in_batches.Transfer, scored_in_batches.Scored
    with ps.TopologyTestDriver(scored_in_batches.builder.build()) as driver:
        transfers = driver.create_input_topic("transfers-to-score", strings, scored_in_batches.transfers)
        results = driver.create_output_topic("scores", strings, scored_in_batches.scores)
        transfers.pipe_input("a", transfer(100_000, 3))
        transfers.pipe_input("b", transfer(20_000, 12))
        assert results.read_key_values_to_list() == [("a", scored(100_000, 1.0)), ("b", scored(20_000, 0.1))]


def test_a_batch_is_scored_as_its_transfers_are_one_by_one() -> None:
    transfers = [scored_in_batches.Transfer(cents, cents % 24) for cents in range(0, 90_000, 9_001)]
    assert scored_in_batches.score(transfers) == [scored_in_batches.score([each])[0] for each in transfers]
