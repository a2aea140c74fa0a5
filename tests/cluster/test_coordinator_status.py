"""The status of an application, as the coordinator's Ray actor reports it; stream actors are stand-ins, no Ray runs."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from penstock.actors.loop.lease import QuestionId
from penstock.actors.status import ActorStatus, TaskState, TaskStatus
from penstock.cluster.coordinator.coordinator import Coordinator
from penstock.cluster.coordinator_shell.coordinator_actor import CoordinatorActor
from penstock.cluster.coordinator_shell.periodic_work import Work
from penstock.cluster.events import GroupAssigned
from penstock.cluster.rollout import Hold
from penstock.cluster.status import ApplicationState
from penstock.cluster.watchers.broker_watch import BrokerWatch
from penstock.cluster.watchers.silence import HUNG_S
from penstock.cluster.watchers.stuck_task_watch import LOOK_EVERY_S
from penstock.common.errors import BrokerUnreachableError, StreamsError
from penstock.common.ids import TaskId, TopicPartition
from penstock.testing.fake_clients import FakeAdmin, FakeClients
from penstock.topology.physical.task_plan import TaskPlan
from tests.cluster.restarted_coordinator import SPEC, LivingActor, Restarted, periodic_work_of, refuse
from tests.cluster.restarted_coordinator import living as living
from tests.cluster.restarted_coordinator import restarted as restarted
from tests.cluster.virtual_time import run


def test_the_status_reports_an_unreachable_broker_and_a_lost_session_until_both_are_back() -> None:
    async def play() -> None:
        coordinator = Restarted(LivingActor())
        assert (await coordinator.status()).waiting is None
        coordinator.may_begin.set()
        await coordinator._beginning
        assert coordinator._dispatcher is not None
        coordinator._broker_watch = BrokerWatch("app", "kafka:9092", FakeClients("app").admin, lambda: 0.0)
        coordinator._broker_watch.reason = "no broker answers at kafka:9092"
        coordinator._dispatcher.feed(GroupAssigned(None))
        waiting = (await coordinator.status()).waiting
        assert waiting is not None
        assert waiting.startswith("no broker answers at kafka:9092; the session in the consumer group is lost")
        coordinator._broker_watch.check()
        assert str((await coordinator.status()).waiting).startswith("the session")
        coordinator._dispatcher.feed(GroupAssigned(frozenset()))
        assert (await coordinator.status()).waiting is None
        coordinator._dispatcher.feed(GroupAssigned(None))
        assert (await coordinator.stop()).waiting is None, "an application that has ended waits for nothing"

    run(play())


def test_a_stuck_task_is_part_of_the_status_unless_there_is_no_session_or_the_application_has_ended() -> None:
    class Lagging(LivingActor):
        async def status(self, question_id: QuestionId) -> ActorStatus:
            at = TopicPartition("in", 0)
            task = TaskStatus(TaskId(0, 0), TaskState.RUNNING, 3, lags={at: 2}, positions={at: 3})
            return ActorStatus(self.actor_id, "node", 1, 1, (task,))

    async def play() -> None:
        coordinator = Restarted(Lagging())
        coordinator.may_begin.set()
        await coordinator._beginning
        periodic = coordinator._periodic = periodic_work_of(coordinator)
        coordinator._repeat(Work(LOOK_EVERY_S, "look for stuck tasks", periodic._look_for_stuck_tasks))
        await asyncio.sleep(HUNG_S - 1)
        assert (await coordinator.status()).stuck == ()
        await asyncio.sleep(1 + LOOK_EVERY_S)
        (stuck,) = (await coordinator.status()).stuck
        assert (stuck.task_id, stuck.topic, stuck.offset, stuck.lag) == (TaskId(0, 0), "in", 3, 2)
        assert coordinator._dispatcher is not None
        coordinator._dispatcher.feed(GroupAssigned(None))
        assert coordinator._dispatcher.machine.session_lost
        await asyncio.sleep(LOOK_EVERY_S + 1)
        assert (await coordinator.status()).stuck == ()
        assert (await coordinator.stop()).stuck == ()

    run(play())


@pytest.mark.parametrize("error", [BrokerUnreachableError("no broker answers"), StreamsError("odd")])
@pytest.mark.parametrize("reason", ["no broker answers at kafka:9092", None], ids=["reported", "not reported"])
def test_the_look_for_partitions_does_not_report_again_that_no_broker_answers(
    error: StreamsError, reason: str | None
) -> None:
    def check(_: TaskPlan) -> None:
        raise error

    async def play() -> None:
        coordinator = Restarted(LivingActor())
        coordinator.may_begin.set()
        await coordinator._beginning
        coordinator._broker_watch = BrokerWatch("app", "kafka:9092", FakeClients("app").admin, lambda: 0.0)
        coordinator._broker_watch.reason = reason
        watch: Any = SimpleNamespace(due=lambda unplanned, orphaned: True, check=check)
        periodic = periodic_work_of(coordinator)
        periodic._topics = watch
        with capture_logs() as logged:
            await periodic._check_topics()
        known = reason is not None and isinstance(error, BrokerUnreachableError)
        assert [line["event"] for line in logged] == ([] if known else ["periodic work failed, retrying"])
        await coordinator.stop()

    run(play())


def test_the_status_reports_a_missing_source_topic() -> None:
    async def play() -> None:
        coordinator = Restarted(LivingActor())
        coordinator.may_begin.set()
        await coordinator._beginning
        watch: Any = SimpleNamespace(missing="topic 'orders' does not exist any more")
        coordinator._periodic = periodic_work_of(coordinator)
        coordinator._periodic._topics = watch
        assert "topic 'orders' does not exist any more" in str((await coordinator.status()).waiting)
        await coordinator.stop()

    run(play())


def test_a_restarted_coordinator_reports_that_it_waits_for_a_broker(
    living: LivingActor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reach(_: FakeAdmin) -> None:
        raise BrokerUnreachableError("not yet")

    refuse(monkeypatch, BrokerUnreachableError("not yet"))
    monkeypatch.setattr(FakeAdmin, "reach", reach)

    async def play() -> None:
        coordinator = CoordinatorActor("app", SPEC)
        async with asyncio.timeout(60):
            while (waiting := (await coordinator.status()).waiting) is None:
                await asyncio.sleep(0.1)
        restarted, broker = waiting.split("; ", 1)
        assert restarted.startswith("its coordinator was restarted")
        assert broker.startswith("no broker answers at ")
        status = await coordinator.status()
        assert status.state is ApplicationState.REBALANCING, "no application that runs is CREATED again"
        assert status.health.no_broker
        coordinator._beginning.cancel()
        assert (await coordinator.stop()).waiting is None

    run(play())


def test_the_status_reports_that_a_version_is_not_watched_and_that_old_actors_make_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play() -> None:
        coordinator = Restarted(LivingActor())
        coordinator.may_begin.set()
        await coordinator._beginning
        coordinator._periodic = periodic_work_of(coordinator)
        monkeypatch.setattr(Coordinator, "watch_held", property(lambda _: Hold.PAUSED.value))
        assert (await coordinator.status()).waiting == "paused: the new version is watched after a resume"
        monkeypatch.setattr(Coordinator, "watch_held", property(lambda _: None))
        coordinator._periodic.waits_for_cpu = "2 stream actors wait for a free CPU: add nodes"
        assert (await coordinator.status()).waiting == "2 stream actors wait for a free CPU: add nodes"
        monkeypatch.setattr(Coordinator, "rolls_out", property(lambda _: True))
        assert (await coordinator.status()).waiting == (
            "no CPU is free for the new version: each old actor that ends makes room for a new one"
        )

    run(play())
