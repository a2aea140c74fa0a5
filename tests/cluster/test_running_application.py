"""An application that another process has started: its tasks and stores are real, Ray and Kafka are not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.cluster.client import control
from penstock.cluster.ray_cluster import connections
from penstock.cluster.status import ApplicationStatus
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


def test_connect_refuses_the_name_of_an_application_that_does_not_run(elsewhere: Elsewhere) -> None:
    with pytest.raises(ps.ApplicationStateError, match="'another' does not run"):
        ps.KafkaStreams.connect("another")


def test_an_application_that_has_ended_reports_its_end(elsewhere: Elsewhere) -> None:
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


def test_one_partition_alone_may_be_asked(elsewhere: Elsewhere) -> None:
    with ps.KafkaStreams.connect(APPLICATION) as running:
        home = running.query_metadata_for_key("counts", "ada")
        here = running.store("counts", partition=home.partition)
        away = running.store("counts", partition=(home.partition + 1) % 3)
        assert (here.get("ada"), away.get("ada")) == (2, None)
        assert (here.get_many(["ada"]), away.get_many(["ada"])) == ({"ada": 2}, {})
        parts = [dict(running.store("counts", partition=each).all()) for each in range(3)]
        assert sorted(key for part in parts for key in part) == ["ada", "bob"]
        assert sum(running.store("counts", partition=each).approximate_num_entries() for each in range(3)) == 2
        request = ps.StateQueryRequest.in_store("counts").with_query(ps.RangeQuery())
        found = [running.query(request.with_partitions([each])) for each in range(3)]
        assert [{row.key for row in each.result} for each in found] == [set(part) for part in parts]
        assert len(list(running.query(request.with_partitions([0]).with_all_partitions()).result)) == 2
        with pytest.raises(ps.UnknownStateStoreError, match="'counts' has no partition 3: its partitions are 0 to 2"):
            running.store("counts", partition=3).get("ada")


def test_the_place_of_a_key_is_that_of_its_task_and_the_actors_of_a_store_are_those_of_its_tasks(
    elsewhere: Elsewhere,
) -> None:
    with ps.KafkaStreams.connect(APPLICATION) as running:
        place = running.query_metadata_for_key("counts", "ada")
        task = ps.TaskId(0, place.partition)
        assert place == ps.KeyQueryMetadata(place.partition, "ab"[place.partition % 2], (), certain=False)
        actors = {it.actor_id: it for it in running.streams_metadata_for_store("windows")}
        assert set(actors) == {"a", "b"}
        mine = actors["ab"[place.partition % 2]]
        assert task in mine.task_ids
        assert {"counts", "windows"} <= mine.state_store_names
        assert (mine.standby_state_store_names, mine.standby_task_ids) == (frozenset(), frozenset())
        with pytest.raises(ps.UnknownStateStoreError, match="its stores: counts, users, windows"):
            running.streams_metadata_for_store("nothing")
