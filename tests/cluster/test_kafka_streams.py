"""The object that a user holds, with stand-ins for the cluster: no Ray runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from ray import cloudpickle
from ray.exceptions import ActorDiedError, GetTimeoutError

import penstock as ps
from penstock.actors.spec import ApplicationSpec
from penstock.cluster.client import http_actor, kafka_streams, starting
from penstock.cluster.client.kafka_streams import KafkaStreams
from penstock.cluster.client.server_settings import ServerSettings
from penstock.cluster.queries import store_reader, store_view
from penstock.cluster.queries.queries import StateQueries
from penstock.cluster.read_side import StoreEntries
from penstock.cluster.status import ApplicationState
from penstock.common.config import StreamsConfig
from penstock.common.errors import ApplicationStateError, ConfigError, UnknownStateStoreError
from tests.cluster.fake_cluster import FakeCluster, counting
from tests.cluster.fake_cluster import app as app
from tests.cluster.fake_cluster import cluster as cluster


def store_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("penstock-stores")]


# ---- before start ----


def test_a_builder_that_was_not_built_is_refused_with_what_to_give() -> None:
    builder: Any = ps.StreamsBuilder()
    with pytest.raises(ps.TopologyError, match=r"not a StreamsBuilder: give builder\.build\(\)"):
        KafkaStreams(builder, {"application.id": "app"})


def test_a_serde_that_is_missing_is_reported_before_anything_starts() -> None:
    builder = ps.StreamsBuilder()
    builder.stream("kv").to("lens")
    with pytest.raises(ConfigError, match=r"has no key serde.*or set default\.key\.serde"):
        KafkaStreams(builder.build(), {"application.id": "app"})


def test_a_notebook_shows_its_topology_with_the_names_of_its_internal_topics() -> None:
    shown = KafkaStreams(counting(), {"application.id": "app"})._repr_html_()
    assert "<title>Topology of app</title>" in shown
    assert "changelog app-counts-changelog" in shown


async def _async_listener(new: ApplicationState, old: ApplicationState) -> None:
    """Nobody would await it."""


@pytest.mark.parametrize(
    ("listener", "message"),
    [
        (3, "set_state_listener: listener must be callable, not 3"),
        (lambda new: None, r"set_state_listener takes f\(new, old\) as its listener; yours takes 1 argument"),
        (_async_listener, "_async_listener is async"),
    ],
)
def test_a_state_listener_that_cannot_be_called_is_refused(app: KafkaStreams, listener: Any, message: str) -> None:
    with pytest.raises(ps.TopologyError, match=message):
        app.set_state_listener(listener)


def test_an_object_that_is_no_listener_is_refused(app: KafkaStreams) -> None:
    with pytest.raises(ps.TopologyError, match="takes an object of a subclass of StateRestoreListener, not <function"):
        app.set_global_state_restore_listener(lambda *given: None)  # type: ignore[arg-type]  # what is refused
    app.set_global_state_restore_listener(None)
    with pytest.raises(ps.TopologyError, match="takes an object of a subclass of StandbyUpdateListener, not <function"):
        app.set_standby_update_listener(lambda *given: None)  # type: ignore[arg-type]  # what is refused
    app.set_standby_update_listener(None)


@pytest.mark.parametrize("call", [KafkaStreams.wait_until_running, lambda app: app.store("counts")])
def test_before_start_a_call_that_needs_the_application_is_an_error_that_names_the_remedy(
    call: Callable[[KafkaStreams], object], app: KafkaStreams
) -> None:
    reported = r"'app' is not started: call start\(\) first.*another process .* by KafkaStreams\.connect\('app'\)"
    with pytest.raises(ApplicationStateError, match=reported):
        call(app)


def test_before_start_state_and_metrics_report_created(app: KafkaStreams) -> None:
    assert app.state() is ApplicationState.CREATED
    metrics = app.metrics()
    assert {(metric.group, *metric.tags.items()) for metric in metrics} == {
        ("stream-metrics", ("application-id", "app"))
    }
    assert {metric.name for metric in metrics} >= {"client-state", "alive-stream-threads", "stuck-tasks", "paused"}
    assert set(metrics.values()) == {0}


def test_closing_before_start_ends_the_application_for_good_as_in_kafka_streams(
    app: KafkaStreams, cluster: FakeCluster
) -> None:
    assert app.close()
    assert app.close()
    assert app.state() is ApplicationState.NOT_RUNNING
    with pytest.raises(ApplicationStateError, match="is closed: make a new object"):
        app.start()
    with pytest.raises(ApplicationStateError, match="is in state NOT_RUNNING: it is closed"):
        app.store("counts")
    assert cluster.calls == []


# ---- start ----


def test_start_serves_http_before_anything_joins_the_group(cluster: FakeCluster) -> None:
    ps.KafkaStreams(counting(), {"application.id": "app"}).start()
    assert cluster.calls == ["connect", "remove ended", "start http", "start coordinator, HTTP at http://here"]


def test_a_start_that_takes_over_ends_others_before_anything_of_it_begins(cluster: FakeCluster) -> None:
    KafkaStreams(counting(), {"application.id": "app"}).start(take_over=True)
    assert cluster.calls == ["connect, end others", "remove ended", "start coordinator, HTTP at None"]
    assert cluster.spec.take_over


def test_a_server_that_others_could_reach_without_protection_starts_nothing(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PENSTOCK_API_TOKENS", raising=False)
    app = ps.KafkaStreams(counting(), {"application.id": "app", "application.server": "0.0.0.0:8080"})
    with pytest.raises(ConfigError, match=r"others can reach 0\.0\.0\.0.* Missing: TLS .* and tokens"):
        app.start()
    assert cluster.calls == []
    app.start(serve=False)  # no server listens


@pytest.mark.parametrize(("server", "serve"), [("", True), ("127.0.0.1:0", False)])
def test_start_serves_no_http_if_that_is_switched_off(server: str, serve: bool, cluster: FakeCluster) -> None:
    ps.KafkaStreams(counting(), {"application.id": "app", "application.server": server}).start(serve)
    assert cluster.calls == ["connect", "remove ended", "start coordinator, HTTP at None"]


def test_a_port_in_use_starts_nothing_and_the_application_may_be_started_again(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = ps.KafkaStreams(counting(), {"application.id": "app"})

    def refuse(*_: object) -> str:
        raise ConfigError("port 8080 is in use")

    with monkeypatch.context() as patch:
        patch.setattr(kafka_streams, "start_http", refuse)
        with pytest.raises(ConfigError, match="port 8080"):
            app.start()
    assert cluster.calls == ["connect", "remove ended"]
    assert app.state() is ApplicationState.CREATED
    app.start()
    assert app.state() is ApplicationState.RUNNING


def test_a_coordinator_that_cannot_start_takes_the_http_server_along(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> object:
        raise ApplicationStateError("no room")

    monkeypatch.setattr(starting, "start_coordinator", fail)
    with pytest.raises(ApplicationStateError, match="no room"):
        ps.KafkaStreams(counting(), {"application.id": "app"}).start()
    assert cluster.calls[-2:] == ["start http", "stop http"]


def test_a_second_start_is_refused(app: KafkaStreams, cluster: FakeCluster) -> None:
    app.start()
    with pytest.raises(ApplicationStateError, match="was started before"):
        app.start()


def test_an_application_travels_until_it_is_started(app: KafkaStreams, cluster: FakeCluster) -> None:
    pickler: Any = cloudpickle
    copy = pickler.loads(pickler.dumps(app))
    copy.start()
    assert copy.state() is ApplicationState.RUNNING
    with pytest.raises(ApplicationStateError, match="cannot be pickled after start"):
        pickler.dumps(copy)


# ---- with ----


def test_a_with_block_starts_and_closes_the_application(app: KafkaStreams, cluster: FakeCluster) -> None:
    with app as entered:
        assert entered is app
        assert app.state() is ApplicationState.RUNNING
        assert "stop" not in cluster.calls
    assert cluster.calls.count("stop") == 1
    assert app.state() is ApplicationState.NOT_RUNNING


def test_an_exception_in_a_with_block_reaches_the_caller_after_the_close(
    app: KafkaStreams, cluster: FakeCluster
) -> None:
    with pytest.raises(ZeroDivisionError), app:
        raise ZeroDivisionError
    assert cluster.calls.count("stop") == 1


# ---- close, and after ----


@pytest.mark.parametrize("ended", [True, False])
def test_closing_ends_the_threads_of_store_views_whether_or_not_the_application_had_ended(
    ended: bool, app: KafkaStreams, cluster: FakeCluster
) -> None:
    app.start()
    app.store("counts")
    assert store_threads() == ["penstock-stores"]
    cluster.now = ApplicationState.ERROR if ended else ApplicationState.RUNNING
    app.status()
    assert app.close()
    assert store_threads() == []
    assert app.close()
    assert cluster.calls.count("end actors" if ended else "stop") == 1


def test_a_view_of_a_closed_application_raises_an_error(app: KafkaStreams, cluster: FakeCluster) -> None:
    app.start()
    view = app.store("counts")
    app.close()
    for ask in (lambda: view.get("a"), lambda: list(view.all()), view.approximate_num_entries):
        with pytest.raises(ApplicationStateError, match=r"application 'app' is closed, and with it .* store 'counts'"):
            ask()


def test_a_question_under_way_when_its_application_is_closed_is_answered_so(
    app: KafkaStreams, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Event()

    async def never(*_: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(StateQueries, "find_row", never)
    app.start()
    view = app.store("counts")
    with ThreadPoolExecutor(1) as beside:
        answer = beside.submit(view.get, "a")
        assert asked.wait(60)
        app.close()
        with pytest.raises(ApplicationStateError, match="is closed"):
            answer.result(60)


class Rangeless:
    """A read side whose store is empty."""

    async def key_serde(self, store: str) -> ps.Serde[int]:
        return ps.Serdes.long()

    async def page(self, *_: object) -> StoreEntries:
        return StoreEntries((), None)


@pytest.mark.parametrize(("first", "last", "warned"), [(-2, 2, True), (3, 2, True), (2, -2, False), (1, 2, False)])
def test_a_range_that_must_be_empty_warns_of_the_order_as_in_kafka_streams(
    first: int, last: int, warned: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(store_reader, "StateQueries", lambda application_id: Rangeless())
    reader = store_reader.StoreReader("app")
    view = store_view.ReadOnlyKeyValueStore[int, int](store_reader.StoreQuestions(reader, "counts", None, 1.0))
    try:
        assert list(view.range(first, last)) == []
    finally:
        reader.close()
    assert ("ends before it begins" in capsys.readouterr().err) is warned


def test_in_error_every_call_reports_the_cause(app: KafkaStreams, cluster: FakeCluster) -> None:
    app.start()
    cluster.now, cluster.error = ApplicationState.ERROR, "ProcessingError: division by zero"
    for call in (app.wait_until_running, lambda: app.store("counts")):
        with pytest.raises(ApplicationStateError, match="is in state ERROR: ProcessingError: division by zero"):
            call()
    assert app.close()
    assert app.state() is ApplicationState.ERROR
    with pytest.raises(ApplicationStateError, match="is in state ERROR: ProcessingError: division by zero"):
        app.store("counts")


def test_an_application_that_was_stopped_from_elsewhere_closes_cleanly(app: KafkaStreams, cluster: FakeCluster) -> None:
    app.start()
    cluster.gone, cluster.coordinator = True, None
    with pytest.raises(ApplicationStateError, match="is in state NOT_RUNNING: it is stopping or has stopped"):
        app.wait_until_running()
    assert app.close()
    assert app.state() is ApplicationState.NOT_RUNNING


@pytest.mark.parametrize("ended", [ApplicationState.NOT_RUNNING, ApplicationState.ERROR])
def test_closing_leaves_alone_an_application_of_the_same_id_that_someone_else_has_started_since(
    ended: ApplicationState, app: KafkaStreams, cluster: FakeCluster
) -> None:
    app.start()
    cluster.now = ended
    assert app.state() is ended
    before, cluster.coordinator = list(cluster.calls), object()
    assert app.close()
    assert app.state() is ended
    assert cluster.calls == before


@pytest.mark.parametrize("drains", [True, False])
def test_the_status_of_a_closed_application_names_no_http_server(
    drains: bool, app: KafkaStreams, cluster: FakeCluster
) -> None:
    app.start()
    cluster.drains = drains
    assert app.status().http_address == "http://here"
    app.close()
    assert app.status().http_address is None


def test_a_close_that_ends_the_actors_without_a_commit_logs_that_once(app: KafkaStreams, cluster: FakeCluster) -> None:
    app.start()
    cluster.drains = False
    assert not app.close()
    assert app.close(), "nothing is left to close"
    assert app.state() is ApplicationState.NOT_RUNNING


def test_two_threads_that_close_at_once_close_once_and_both_wait(app: KafkaStreams, cluster: FakeCluster) -> None:
    app.start()
    cluster.may_continue.clear()
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(app.close)
        assert cluster.stopping.wait(60)
        second = threads.submit(app.close)
        assert not app.close(0.0), "no time to wait for the other thread"
        assert not second.done()
        cluster.may_continue.set()
        assert first.result(60)
        assert second.result(60)
    assert cluster.calls.count("stop") == 1


def test_waiting_ends_with_the_current_state_when_the_time_is_over(app: KafkaStreams, cluster: FakeCluster) -> None:
    app.start()
    cluster.now = ApplicationState.REBALANCING
    with pytest.raises(ApplicationStateError, match=r"still REBALANCING after 0 s \(0 actors up, 4 CPUs"):
        app.wait_until_running(0.0)
    cluster.waiting = "2 stream actors wait for a free CPU; stream actors of other applications: 'other' (2)"
    with pytest.raises(ApplicationStateError, match=r"Ray cluster\): 2 stream actors wait .*'other'"):
        app.wait_until_running(0.0)


def test_waiting_outlasts_a_coordinator_that_is_restarted(app: KafkaStreams, cluster: FakeCluster) -> None:
    app.start()
    cluster.silent_for = 2
    app.wait_until_running()
    assert cluster.silent_for == 0
    cluster.silent_for = 1
    with pytest.raises(ApplicationStateError, match="coordinator is being restarted: ask again"):
        app.wait_until_running(0.0)


def test_a_store_that_does_not_exist_is_named_with_those_that_do(app: KafkaStreams, cluster: FakeCluster) -> None:
    app.start()
    with pytest.raises(UnknownStateStoreError, match="no state store 'county'; its stores: counts"):
        app.store("county")
    assert store_threads() == []


class FakeActorClass:
    """Looks like a Ray actor class, and like the actor that is made of it."""

    def __init__(self, taken: bool) -> None:
        self._taken = taken
        self.ready = self.address = SimpleNamespace(remote=lambda: None)

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
        (True, None, "is being started by another process", 0),
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
    monkeypatch.setattr(starting, "ray", ray)
    with pytest.raises(ApplicationStateError, match=says):
        starting.start_coordinator(ApplicationSpec(counting(), StreamsConfig.of({"application.id": "app"})))
    assert killed == [actor] * kills


def test_ctrl_c_in_a_start_leaves_no_actor_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def get(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    killed: list[object] = []
    actor = FakeActorClass(taken=False)
    context = SimpleNamespace(get_node_id=lambda: "0" * 56)
    ray = SimpleNamespace(remote=lambda _: actor, get=get, kill=killed.append, get_runtime_context=lambda: context)
    monkeypatch.setattr(starting, "ray", ray)
    monkeypatch.setattr(http_actor, "ray", ray)
    with pytest.raises(KeyboardInterrupt):
        starting.start_coordinator(ApplicationSpec(counting(), StreamsConfig.of({"application.id": "app"})))
    with pytest.raises(KeyboardInterrupt):
        http_actor.start_http("app", ServerSettings(), NotImplemented)
    assert killed == [actor, actor]
