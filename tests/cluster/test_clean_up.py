"""``KafkaStreams.clean_up()``: when it may be called, and on which nodes. Ray is a stand-in."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import GetTimeoutError, RayTaskError

from penstock.actors.task_host.state_cleanup import LocalState
from penstock.cluster.client import local_state
from penstock.cluster.client.kafka_streams import KafkaStreams
from penstock.cluster.client.local_state import NodeState
from penstock.cluster.ray_cluster import connections
from penstock.cluster.ray_cluster.ray_clusters import RayCluster
from penstock.cluster.status import ApplicationState
from penstock.common.errors import ApplicationStateError, StateStoreLockedError, StreamsError
from tests.cluster.fake_cluster import FakeCluster, counting
from tests.cluster.fake_cluster import cluster as cluster


@pytest.fixture
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is connected to no Ray, and none is to be found."""
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr(connections, "clusters", list)
    monkeypatch.setattr(connections, "started_here", lambda: None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


@pytest.fixture
def app(tmp_path: Path, no_ray: None, cluster: FakeCluster) -> KafkaStreams:
    return KafkaStreams(counting(), {"application.id": "app", "state.dir": tmp_path})


def state(tmp_path: Path) -> Path:
    path = tmp_path / "app" / "0_0" / "rocksdb"
    path.mkdir(parents=True)
    return path


def test_local_state_is_deleted_before_start_and_after_close_and_never_in_between(
    app: KafkaStreams, tmp_path: Path, cluster: FakeCluster
) -> None:
    other = tmp_path / "app-b" / "0_0"
    other.mkdir(parents=True)
    path = state(tmp_path)
    app.clean_up()
    assert not path.exists()
    path = state(tmp_path)
    app.start()
    with pytest.raises(ApplicationStateError, match=r"'app' was started and is not closed: clean_up\(\) is for before"):
        app.clean_up()
    cluster.now = ApplicationState.ERROR
    with pytest.raises(ApplicationStateError, match="is not closed"):
        app.clean_up()
    app.close()
    assert path.exists()
    app.clean_up()
    assert not (tmp_path / "app").exists()
    assert other.exists()


def test_an_application_that_runs_in_another_process_keeps_its_state(
    app: KafkaStreams, tmp_path: Path, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, addresses = state(tmp_path), []
    found = RayCluster("here:1", ("app", "other"))
    monkeypatch.setattr(connections, "clusters", lambda: [RayCluster("there:1", ("other",)), found])
    monkeypatch.setattr(connections, "connect_to_cluster", lambda it, **_: addresses.append(it.address))
    monkeypatch.setattr("ray.shutdown", lambda: addresses.append("shutdown"))
    cluster.coordinator = object()
    with pytest.raises(
        ApplicationStateError, match=r"runn.* in the Ray cluster at here:1 .*stop it with 'penstock stop app'(?m:$)"
    ):
        app.clean_up()
    assert addresses == ["here:1", "shutdown"]
    assert path.exists()
    cluster.now = ApplicationState.ERROR  # its actors have ended
    app.clean_up()
    assert not path.exists()


def test_the_cluster_that_the_application_would_start_in_is_the_one_that_is_cleaned(
    no_ray: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(connections, "connect_to_cluster", lambda it, **_: calls.append(it.address))
    monkeypatch.setattr("ray.shutdown", lambda: calls.append("shutdown"))
    monkeypatch.setattr(connections, "probe", RayCluster)
    with connections.connected_as_start_would() as address:
        assert address is None
    monkeypatch.setattr(connections, "started_here", lambda: RayCluster("here:1"))
    with connections.connected_as_start_would() as address:
        assert address == "here:1"
    monkeypatch.setenv("RAY_ADDRESS", "named:1")
    with connections.connected_as_start_would() as address:
        assert address == "named:1"
    monkeypatch.setenv("RAY_ADDRESS", "local")
    with connections.connected_as_start_would() as address:
        assert address is None
    assert calls == ["here:1", "shutdown", "named:1", "shutdown"]


class Nodes:
    """A Ray whose tasks run here, each as on the node that it was sent to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **errors: Exception) -> None:
        self.names = {f"{number:056x}": name for number, name in enumerate(("one", "two", "three"), 1)}
        self.errors, self.calls = errors, list[str]()
        alive = [{"NodeID": key, "NodeManagerHostname": name, "Alive": True} for key, name in self.names.items()]
        gone = {"NodeID": "f" * 56, "NodeManagerHostname": "gone", "Alive": False}
        monkeypatch.setattr("ray.is_initialized", lambda: True)
        monkeypatch.setattr("ray.nodes", lambda: [*alive, gone])
        monkeypatch.setattr("ray.remote", self.remote)
        monkeypatch.setattr("ray.get", lambda task, timeout: task())

    def remote(self, work: Any) -> Any:
        def options(scheduling_strategy: Any, **_: object) -> Any:
            assert not scheduling_strategy.soft
            name = self.names[scheduling_strategy.node_id]

            def remote(path: Path) -> Any:
                self.calls.append(f"ask {name}")
                return lambda: self.run(name)

            return SimpleNamespace(remote=remote)

        return SimpleNamespace(options=options)

    def run(self, name: str) -> LocalState:
        self.calls.append(name)
        if name in self.errors:
            raise self.errors[name]
        return LocalState(1, 10)


def test_every_node_that_is_up_is_looked_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nodes = Nodes(monkeypatch)
    assert local_state.look(tmp_path) == [NodeState(name, 1, 10) for name in ("one", "two", "three")]
    assert nodes.calls == ["ask one", "ask two", "ask three", "one", "two", "three"]


def test_nodes_are_cleaned_one_after_the_other_for_they_may_share_a_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nodes = Nodes(monkeypatch)
    assert local_state.clean_up(tmp_path) == [NodeState(name, 1, 10) for name in ("one", "two", "three")]
    assert nodes.calls == ["ask one", "one", "ask two", "two", "ask three", "three"]


def test_nodes_that_cannot_be_cleaned_are_named_after_all_others_are_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    locked = StateStoreLockedError("somebody has it open")
    task_error = RayTaskError("f", "a traceback", locked)  # type: ignore[no-untyped-call]  # untyped in Ray
    nodes = Nodes(monkeypatch, one=task_error, two=GetTimeoutError("took too long"))
    assert [each.error for each in local_state.look(tmp_path)] == ["somebody has it open", "took too long", None]
    with pytest.raises(StreamsError, match=r"not deleted on one: somebody has it open; on two: took too long$"):
        local_state.clean_up(tmp_path)
    assert nodes.calls[-1] == "three"
