"""An application that another process has started: its tasks and stores are real, Ray and Kafka are not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.actors.messages import ApplicationStatus
from penstock.cluster import connections, control
from tests.actors.rig import APPLICATION
from tests.cluster.local_application import LocalApplication

STRING = ps.Serdes.string()


def topology() -> ps.Topology:
    builder = ps.StreamsBuilder()
    by_key = builder.stream("in", ps.Consumed.with_(STRING, STRING)).group_by_key()
    by_key.count(ps.Materialized.as_("counts"))
    by_key.windowed_by(ps.TimeWindows.of_size_with_no_grace(10_000)).count(ps.Materialized.as_("windows"))
    builder.global_table("users", ps.Consumed.with_(STRING, STRING), ps.Materialized.as_("users"))
    return builder.build()


class Elsewhere:
    """The application as its coordinator reports it."""

    def __init__(self, application: LocalApplication) -> None:
        self.state = ps.ApplicationState.RUNNING
        self.error: str | None = None
        self.connected: list[str] = []
        self._application = application

    def connect_to(self, application_id: str) -> None:
        self.connected.append(application_id)

    def status(self, application_id: str) -> ApplicationStatus:
        if application_id != APPLICATION:
            raise ps.ApplicationStateError(f"application {application_id!r} does not run in this Ray cluster")
        return ApplicationStatus(APPLICATION, self.state, 1, (), self._application.placement, error=self.error)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Elsewhere]:
    application = LocalApplication(tmp_path, topology(), ("in", "users"))
    for key, timestamp in (("ada", 1), ("bob", 2), ("ada", 3)):
        application.write("in", key, "x", timestamp)
    application.settle()
    it = Elsewhere(application)
    monkeypatch.setattr("ray.get_actor", lambda *_: application)
    monkeypatch.setattr(connections, "connect_to", it.connect_to)
    monkeypatch.setattr(control, "require_status", it.status)
    yield it
    application.close()


def test_a_process_asks_the_stores_of_an_application_that_another_one_has_started(elsewhere: Elsewhere) -> None:
    with ps.KafkaStreams.connect(APPLICATION) as running:
        assert elsewhere.connected == [APPLICATION]
        assert (running.application_id, running.state()) == (APPLICATION, ps.ApplicationState.RUNNING)
        assert sorted(running.store("counts").all()) == [("ada", 2), ("bob", 1)]
        windows = running.store("windows", ps.QueryableStoreTypes.window_store())
        assert windows.fetch("ada", 0) == 2
        asked = running.query(ps.StateQueryRequest.in_store("counts").with_query(ps.KeyQuery("bob")))
        assert asked.result.value == 1
        assert ("client-state", "stream-metrics") in {(it.name, it.group) for it in running.metrics()}


def test_it_refuses_a_store_that_there_is_not_and_the_wrong_kind_of_view(elsewhere: Elsewhere) -> None:
    with ps.KafkaStreams.connect(APPLICATION) as running:
        with pytest.raises(ps.UnknownStateStoreError, match="its stores: counts, users, windows"):
            running.store("count")
        with pytest.raises(ps.UnknownQueryError, match=r"'windows' is a timestamped window store: ask for it as .*"):
            running.store("windows")
        assert running.store("users").get("nobody") is None, "a global store"


def test_what_is_no_application_is_refused_by_connect(elsewhere: Elsewhere) -> None:
    with pytest.raises(ps.ApplicationStateError, match="'another' does not run"):
        ps.KafkaStreams.connect("another")


def test_an_application_that_has_ended_tells_its_end(elsewhere: Elsewhere) -> None:
    with ps.KafkaStreams.connect(APPLICATION) as running:
        elsewhere.state, elsewhere.error = ps.ApplicationState.ERROR, "ProcessingError: division by zero"
        with pytest.raises(ps.ApplicationStateError, match="in state ERROR: ProcessingError: division by zero"):
            running.store("counts")


def test_closing_the_connection_ends_its_views_and_not_the_application(elsewhere: Elsewhere) -> None:
    running = ps.KafkaStreams.connect(APPLICATION)
    view: Any = running.store("counts")
    running.close()
    running.close()
    with pytest.raises(ps.ApplicationStateError, match="is closed, and with it this view of its store 'counts'"):
        view.get("ada")
    with pytest.raises(ps.ApplicationStateError, match=r"the connection to application .* is closed: connect again"):
        running.store("counts")
    with ps.KafkaStreams.connect(APPLICATION) as again:
        assert again.store("counts").get("ada") == 2
