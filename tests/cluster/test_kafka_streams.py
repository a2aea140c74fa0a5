"""What a user holds, with stand-ins for the cluster: no Ray runs."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from ray.exceptions import ActorDiedError, GetTimeoutError

import penstock as ps
from penstock.actors.messages import ApplicationSpec, ApplicationState, ApplicationStatus
from penstock.cluster import control
from penstock.cluster.kafka_streams import KafkaStreams
from penstock.common.config import StreamsConfig
from penstock.common.errors import ApplicationStateError, UnknownStateStoreError


def counting() -> ps.Topology:
    builder = ps.StreamsBuilder()
    stream = builder.stream("lines", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string()))
    stream.group_by_key().count(ps.Materialized.as_("counts"))
    return builder.build()


@pytest.fixture
def app() -> KafkaStreams:
    made = KafkaStreams(counting(), {"application.id": "app"})
    made._coordinator = object()
    return made


def store_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("penstock-store-")]


@pytest.mark.parametrize("ended", [True, False])
def test_closing_ends_the_threads_of_store_views_whether_or_not_the_application_had_ended(
    ended: bool, app: KafkaStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = ApplicationStatus("app", ApplicationState.ERROR, 1, (), {})
    monkeypatch.setattr(control, "end_actors", lambda application_id: None)
    monkeypatch.setattr(control, "stop_application", lambda application_id, timeout_s: over)
    app.store("counts")
    assert store_threads() == ["penstock-store-counts"]
    app._last = over if ended else None
    assert app.close()
    assert store_threads() == []
    assert app.close()


def test_a_store_that_does_not_exist_is_named_with_those_that_do(app: KafkaStreams) -> None:
    with pytest.raises(UnknownStateStoreError, match="no state store 'county'; its stores: counts"):
        app.store("county")
    assert store_threads() == []


class FakeActorClass:
    """Looks like a Ray actor class, and like the actor that is made of it."""

    def __init__(self, taken: bool) -> None:
        self._taken = taken
        self.ready = SimpleNamespace(remote=lambda: None)

    def options(self, **_: object) -> FakeActorClass:
        return self

    def remote(self, *_: object) -> FakeActorClass:
        if self._taken:
            raise ValueError("the name is already taken")
        return self


@pytest.mark.parametrize(
    ("taken", "failure", "says", "kills"),
    [
        (False, ActorDiedError(), "cannot start in the Ray cluster", 1),
        (False, GetTimeoutError(), "did not start the coordinator", 1),
        (True, None, "is being started by someone else", 0),
    ],
)
def test_a_start_that_fails_leaves_no_coordinator_behind(
    taken: bool, failure: Exception | None, says: str, kills: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def get(*_: object, **__: object) -> None:
        assert failure is not None
        raise failure

    killed: list[object] = []
    actor = FakeActorClass(taken)
    ray = SimpleNamespace(remote=lambda _: actor, get=get, kill=killed.append)
    monkeypatch.setattr(control, "ray", ray)
    monkeypatch.setattr(control, "_make_room", lambda application_id: None)
    with pytest.raises(ApplicationStateError, match=says):
        control.start_coordinator(ApplicationSpec(counting(), StreamsConfig.of({"application.id": "app"})))
    assert killed == [actor] * kills
