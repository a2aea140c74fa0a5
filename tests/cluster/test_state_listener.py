"""The calls of a state listener, with stand-ins for the cluster: no Ray runs."""

from __future__ import annotations

import queue
import threading

import pytest
from ray.exceptions import GetTimeoutError

from penstock.cluster.client import control
from penstock.cluster.client.kafka_streams import KafkaStreams
from penstock.cluster.coordinator.state_transitions import check_transition, states_between
from penstock.cluster.status import ApplicationState, ApplicationStatus
from penstock.common.errors import ApplicationStateError
from tests.cluster.fake_cluster import FakeCluster
from tests.cluster.fake_cluster import app as app
from tests.cluster.fake_cluster import cluster as cluster


class Heard:
    """A state listener whose calls a test can wait for."""

    def __init__(self) -> None:
        self.changes: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()

    def __call__(self, new: ApplicationState, old: ApplicationState) -> None:
        self.changes.put((new.value, old.value))

    def started(self) -> bool:
        """Returns True if the next two calls are those of an application that starts."""
        return [self.next(), self.next()] == [("REBALANCING", "CREATED"), ("RUNNING", "REBALANCING")]

    def next(self) -> tuple[str, str]:
        return self.changes.get(timeout=60)


def test_a_state_listener_hears_each_change_as_new_and_old_state(app: KafkaStreams, cluster: FakeCluster) -> None:
    heard = Heard()
    cluster.now = ApplicationState.REBALANCING
    app.set_state_listener(heard)
    app.start()
    assert heard.next() == ("REBALANCING", "CREATED")
    cluster.now = ApplicationState.RUNNING
    assert heard.next() == ("RUNNING", "REBALANCING")
    app.close()
    assert heard.changes.qsize() == 2, "close() returns when the listener has heard of the end"
    assert heard.next() == ("PENDING_SHUTDOWN", "RUNNING")
    assert heard.next() == ("NOT_RUNNING", "PENDING_SHUTDOWN")


def test_a_state_listener_hears_of_an_error_and_of_nothing_behind_it(app: KafkaStreams, cluster: FakeCluster) -> None:
    heard = Heard()
    app.set_state_listener(heard)
    app.start()
    assert heard.started()
    cluster.now = ApplicationState.ERROR
    assert heard.next() == ("PENDING_ERROR", "RUNNING")
    assert heard.next() == ("ERROR", "PENDING_ERROR")
    app.close()
    assert heard.changes.empty()


def test_an_error_of_a_state_listener_is_logged_and_it_hears_the_next_change(
    app: KafkaStreams, cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    heard = Heard()

    def listener(new: ApplicationState, old: ApplicationState) -> None:
        heard(new, old)
        raise ZeroDivisionError("a listener's own")

    app.set_state_listener(listener)
    app.start()
    assert heard.started()
    app.close()
    assert heard.changes.qsize() == 2
    message = capsys.readouterr().err
    assert "state listener failed" in message
    assert "Empty" not in message, "only the listener's own error is shown"


def test_a_state_listener_may_close_the_application(app: KafkaStreams, cluster: FakeCluster) -> None:
    closed: queue.SimpleQueue[bool] = queue.SimpleQueue()
    app.set_state_listener(lambda new, old: closed.put(app.close()) if new is ApplicationState.ERROR else None)
    app.start()
    cluster.now = ApplicationState.ERROR
    assert closed.get(timeout=60)


@pytest.mark.parametrize(
    "raised",
    [ApplicationStateError("the application's coordinator has not answered for 10 s"), GetTimeoutError()],
    ids=["the coordinator does not answer", "a bad moment"],
)
def test_a_look_at_the_state_that_fails_is_no_change_of_state_and_the_listener_hears_on(
    raised: Exception, app: KafkaStreams, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, looked = Heard(), threading.Event()

    def fails(_: object) -> ApplicationStatus:
        looked.set()
        raise raised

    app.set_state_listener(heard)
    app.start()
    assert heard.started()
    with monkeypatch.context() as patch:
        patch.setattr(control, "status_of", fails)
        assert looked.wait(60)
    cluster.now = ApplicationState.REBALANCING
    assert heard.next() == ("REBALANCING", "RUNNING")
    app.close()


def test_a_state_listener_hears_of_the_end_although_close_raises(
    app: KafkaStreams, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Heard()
    app.set_state_listener(heard)
    app.start()
    assert heard.started()

    def by_force(application_id: str, timeout_s: float) -> ApplicationStatus:
        raise ApplicationStateError("the coordinator was ended by force")

    monkeypatch.setattr(control, "stop_application", by_force)
    with pytest.raises(ApplicationStateError, match="by force"):
        app.close()
    assert heard.next() == ("PENDING_SHUTDOWN", "RUNNING")
    assert heard.next() == ("NOT_RUNNING", "PENDING_SHUTDOWN")


def test_listeners_come_before_the_start(app: KafkaStreams, cluster: FakeCluster) -> None:
    app.start()
    with pytest.raises(ApplicationStateError, match="set the state listener first"):
        app.set_state_listener(print)
    with pytest.raises(ApplicationStateError, match="set the restore listener first"):
        app.set_global_state_restore_listener(None)


def test_a_state_listener_hears_only_of_changes_that_the_drawing_has_whatever_was_seen_of_them(
    app: KafkaStreams, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, looks = Heard(), queue.SimpleQueue[ApplicationState]()

    def look(_: object) -> ApplicationStatus:
        looks.put(cluster.now)
        return cluster.status()

    app.set_state_listener(heard)
    app.start()
    assert heard.started(), "REBALANCING was over before anybody looked"
    cluster.now = ApplicationState.CREATED  # its coordinator was restarted, and begins again
    monkeypatch.setattr(control, "status_of", look)
    assert {looks.get(timeout=60), looks.get(timeout=60)} == {ApplicationState.CREATED}
    cluster.now = ApplicationState.REBALANCING
    assert heard.next() == ("REBALANCING", "RUNNING")
    cluster.now = ApplicationState.NOT_RUNNING
    assert heard.next() == ("PENDING_SHUTDOWN", "REBALANCING")
    assert heard.next() == ("NOT_RUNNING", "PENDING_SHUTDOWN")
    app.close()
    assert heard.changes.empty()


def test_every_way_between_two_states_is_one_of_single_steps() -> None:
    for was in ApplicationState:
        for now in ApplicationState:
            old = was
            for state in states_between(was, now):
                check_transition(old, state)
                old = state
            assert old in (was, now)
    assert states_between(ApplicationState.CREATED, ApplicationState.RUNNING)[0] is ApplicationState.REBALANCING
    assert states_between(ApplicationState.NOT_RUNNING, ApplicationState.RUNNING) == ()


def test_when_no_way_leads_to_the_end_that_close_comes_to_the_listener_hears_of_it_all_the_same(
    app: KafkaStreams, cluster: FakeCluster
) -> None:
    heard = Heard()
    app.set_state_listener(heard)
    app.start()
    assert heard.started()
    cluster.now = ApplicationState.PENDING_ERROR
    assert heard.next() == ("PENDING_ERROR", "RUNNING")
    assert app.close(20)
    assert heard.next() == ("NOT_RUNNING", "PENDING_ERROR")
