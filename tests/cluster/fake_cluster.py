"""A stand-in for Ray and the application's actors, as a user's process calls them."""

from __future__ import annotations

import threading

import pytest

import penstock as ps
from penstock.actors.spec import ApplicationSpec
from penstock.cluster.client import control, kafka_streams, starting
from penstock.cluster.client.kafka_streams import KafkaStreams
from penstock.cluster.status import ApplicationState, ApplicationStatus


def counting() -> ps.Topology:
    builder = ps.StreamsBuilder()
    stream = builder.stream("lines", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string()))
    stream.group_by_key().count(ps.Materialized.as_("counts"))
    return builder.build()


class FakeCluster:
    """Stands in for Ray and the application's actors; keeps the calls it got."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = ApplicationState.RUNNING
        self.error: str | None = None
        self.waiting: str | None = None
        self.gone = self.paused = False
        self.drains = True
        self.silent_for = 0
        """Number of requests for the status that the coordinator leaves without an answer."""
        self.coordinator: object = None
        self.calls: list[str] = []
        self.stopping, self.may_continue = threading.Event(), threading.Event()
        self.may_continue.set()
        patch.setattr(control, "status_of", lambda coordinator: None if self.gone else self.answer())
        for module in (control, kafka_streams):
            patch.setattr(module, "find_coordinator", lambda application_id: self.coordinator)
        patch.setattr(starting, "connect", self.connect)
        patch.setattr(control, "remove_ended", lambda application_id, topology: self.calls.append("remove ended"))
        patch.setattr(starting, "start_coordinator", self.start_coordinator)
        patch.setattr(control, "wait_until_left", lambda coordinator: self.calls.append("wait until left"))
        patch.setattr(control, "end_actors", lambda *_: self.calls.append("end actors"))
        patch.setattr(control, "stop_application", self.stop_application)
        patch.setattr(control, "cluster_cpus", lambda: 4)
        patch.setattr(KafkaStreams, "check", lambda app: None)
        patch.setattr(kafka_streams, "start_http", self.start_http)
        patch.setattr(kafka_streams, "stop_http", lambda server: self.calls.append("stop http"))

    def answer(self) -> ApplicationStatus:
        if self.silent_for:
            self.silent_for -= 1
            raise control.CoordinatorSilentError("the application's coordinator is being restarted: ask again")
        return self.status()

    def status(self) -> ApplicationStatus:
        return ApplicationStatus(
            "app",
            self.now,
            1,
            (),
            {},
            http_address="http://here",
            error=self.error,
            waiting=self.waiting,
            paused=self.paused,
        )

    def connect(self, application_id: str, take_over: bool) -> None:
        self.calls.append("connect, end others" if take_over else "connect")

    def start_coordinator(self, spec: ApplicationSpec, address: str | None = None) -> object:
        self.calls.append(f"start coordinator, HTTP at {address}")
        self.coordinator, self.spec = object(), spec
        return self.coordinator

    def start_http(self, application_id: str, application_server: str, serve: object) -> tuple[object, str]:
        self.calls.append("start http")
        return object(), "http://here"

    def stop_application(self, application_id: str, timeout_s: float) -> ApplicationStatus | None:
        self.calls.append("stop")
        self.stopping.set()
        assert self.may_continue.wait(60)
        self.now = ApplicationState.NOT_RUNNING
        return self.status() if self.drains else None


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    return FakeCluster(monkeypatch)


@pytest.fixture
def app() -> KafkaStreams:
    return KafkaStreams(counting(), {"application.id": "app"})
