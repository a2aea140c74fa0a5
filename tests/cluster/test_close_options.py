"""``KafkaStreams.close`` with options: the time it may take, and leaving the group. No Ray runs."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

import penstock as ps
from penstock.cluster.client import kafka_streams
from penstock.cluster.client.kafka_streams import KafkaStreams
from penstock.cluster.coordinator_shell import leaving
from penstock.cluster.status import ApplicationState
from penstock.common.config import StreamsConfig
from penstock.common.errors import StreamsError
from penstock.kafka.group_tools import GroupTools
from tests.cluster.fake_cluster import FakeCluster
from tests.cluster.fake_cluster import app as app
from tests.cluster.fake_cluster import cluster as cluster

Operation = ps.CloseOptions.GroupMembershipOperation
LEAVE = ps.CloseOptions.group_membership_operation(Operation.LEAVE_GROUP)


@pytest.fixture
def left(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls that the cluster got, including those to leave the group."""

    def leave(config: StreamsConfig, left_s: float) -> None:
        assert left_s <= 60
        cluster.calls.append(f"leave {config.application_id}")

    monkeypatch.setattr(kafka_streams, "leave_group", leave)
    return cluster.calls


def test_options_may_come_in_any_order() -> None:
    assert ps.CloseOptions.timeout(5).with_group_membership_operation(Operation.LEAVE_GROUP) == LEAVE.with_timeout(5)
    assert (LEAVE.timeout_s, LEAVE.leaves) == (60.0, True)
    assert not ps.CloseOptions.timeout(5).leaves
    wrong: Any = "LEAVE_GROUP"
    with pytest.raises(TypeError, match=r"LEAVE_GROUP or REMAIN_IN_GROUP .*, not 'LEAVE_GROUP' \(str\)"):
        ps.CloseOptions.group_membership_operation(wrong)


@pytest.mark.parametrize(
    "options", [60.0, ps.CloseOptions.timeout(60), LEAVE.with_group_membership_operation(Operation.REMAIN_IN_GROUP)]
)
def test_an_application_stays_in_its_group_unless_it_is_ordered_to_leave(
    app: KafkaStreams, left: list[str], options: float | ps.CloseOptions
) -> None:
    app.start()
    assert app.close(options)
    assert left[-1] == "stop"


def test_the_group_is_left_once_after_all_actors_have_ended(app: KafkaStreams, left: list[str]) -> None:
    app.start()
    assert app.close(LEAVE)
    assert app.close(LEAVE)
    assert left[-2:] == ["stop", "leave app"]


def test_it_is_left_too_when_the_drain_took_too_long_and_after_an_error(
    app: KafkaStreams, left: list[str], cluster: FakeCluster
) -> None:
    app.start()
    cluster.drains = False
    assert not app.close(LEAVE.with_timeout(0.1))
    assert left[-1] == "leave app"
    other = KafkaStreams(app.topology, {"application.id": "other"})
    other.start()
    cluster.now = ApplicationState.ERROR
    assert other.state() is ApplicationState.ERROR
    assert other.close(LEAVE)
    assert left[-3:] == ["wait until left", "end actors", "leave other"]


def test_a_static_member_of_a_process_that_started_since_is_not_removed(
    app: KafkaStreams, left: list[str], cluster: FakeCluster
) -> None:
    app.start()
    cluster.coordinator = object()
    assert app.close(LEAVE)
    assert not [call for call in left if call.startswith("leave")]


def test_one_that_was_never_started_has_nothing_to_leave(app: KafkaStreams, left: list[str]) -> None:
    assert app.close(LEAVE)
    assert left == []


def test_a_group_that_cannot_be_left_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def free(self: object, group: str, instance_id: str, timeout_s: float) -> None:
        asked.append((group, instance_id, timeout_s))
        raise StreamsError("nobody answers")

    monkeypatch.setattr(GroupTools, "free_static_member", free)
    monkeypatch.setattr(leaving, "find_process_id", lambda application_id: "here")
    with capture_logs() as logs:
        leaving.leave_group(StreamsConfig.of({"application.id": "app"}), -3.0)
    assert asked == [("app", "app-here", 5.0)]
    assert [(each["log_level"], each["error"]) for each in logs] == [("warning", "nobody answers")]
