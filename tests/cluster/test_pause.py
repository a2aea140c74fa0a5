"""Pause, resume, and the handlers of errors, as a program sees them: stand-ins for the cluster, no Ray runs."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import penstock as ps
from penstock.cluster.client import control
from penstock.cluster.client.kafka_streams import KafkaStreams
from penstock.cluster.status import ApplicationState
from penstock.common.errors import ApplicationStateError, TopologyError
from tests.cluster.fake_cluster import FakeCluster
from tests.cluster.fake_cluster import app as app
from tests.cluster.fake_cluster import cluster as cluster


@pytest.fixture(autouse=True)
def pausing(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def pause(application_id: str, coordinator: object, paused: bool) -> None:
        cluster.calls.append(f"pause {paused}")
        cluster.paused = paused

    monkeypatch.setattr(control, "pause_application", pause)


def test_a_running_application_is_paused_and_resumed(app: KafkaStreams, cluster: FakeCluster) -> None:
    app.start()
    assert not app.is_paused()
    app.pause()
    assert app.is_paused()
    app.resume()
    assert not app.is_paused()
    assert cluster.calls[-2:] == ["pause True", "pause False"]


def test_one_that_is_paused_before_its_start_starts_so(app: KafkaStreams, cluster: FakeCluster) -> None:
    app.pause()
    assert app.is_paused()
    assert pickle.loads(pickle.dumps(app)).is_paused()
    app.start()
    assert cluster.spec.paused
    assert "pause True" not in cluster.calls, "there is no moment in which it processes"


def test_one_that_was_resumed_before_its_start_is_not(app: KafkaStreams, cluster: FakeCluster) -> None:
    app.pause()
    app.resume()
    app.start()
    assert not cluster.spec.paused


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_an_application_that_has_ended_is_neither_paused_nor_resumed(
    app: KafkaStreams, cluster: FakeCluster, verb: str
) -> None:
    app.start()
    cluster.now, cluster.error = ApplicationState.ERROR, "boom"
    with pytest.raises(ApplicationStateError, match="ERROR: boom"):
        getattr(app, verb)()
    app.close()
    with pytest.raises(ApplicationStateError):
        getattr(app, verb)()


def stop_it(exception: BaseException) -> ps.UncaughtExceptionResponse:
    return ps.UncaughtExceptionResponse.SHUTDOWN_CLIENT


def test_the_uncaught_exception_handler_travels_with_the_program(app: KafkaStreams, cluster: FakeCluster) -> None:
    app.set_uncaught_exception_handler(stop_it)
    app.start()
    assert cluster.spec.uncaught_exception_handler is stop_it
    with pytest.raises(ApplicationStateError, match="set the uncaught exception handler first"):
        app.set_uncaught_exception_handler(None)


def test_none_takes_the_uncaught_exception_handler_away(app: KafkaStreams, cluster: FakeCluster) -> None:
    app.set_uncaught_exception_handler(stop_it)
    app.set_uncaught_exception_handler(None)
    app.start()
    assert cluster.spec.uncaught_exception_handler is None


@pytest.mark.parametrize("handler", [42, lambda: None, lambda thread, exception: None])
def test_a_handler_that_does_not_take_one_exception_is_refused(app: KafkaStreams, handler: Any) -> None:
    with pytest.raises(TopologyError, match="set_uncaught_exception_handler"):
        app.set_uncaught_exception_handler(handler)
