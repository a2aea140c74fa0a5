"""The coordinator's Ray actor where its order of events matters; stream actors are stand-ins, no Ray runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray import cloudpickle
from ray.experimental import internal_kv
from structlog.testing import capture_logs

import penstock as ps
from penstock.actors.loop.lease import QuestionId
from penstock.actors.messages import (
    ActorEnd,
    ActorStatus,
    ApplicationSpec,
    ApplicationState,
    CommitAnswer,
    CommitRequest,
    TaskState,
    TaskStatus,
)
from penstock.actors.orders import Order, Pause, Stop
from penstock.actors.rollout import Hold
from penstock.cluster.coordinator.coordinator import Coordinator
from penstock.cluster.coordinator_shell import first_plan
from penstock.cluster.coordinator_shell.coordinator_actor import CoordinatorActor
from penstock.cluster.coordinator_shell.dispatch import Dispatcher
from penstock.cluster.coordinator_shell.periodic_work import PeriodicWork, Work
from penstock.cluster.coordinator_shell.ray_environment import RayEnvironment
from penstock.cluster.coordinator_shell.stream_actor_handle import StreamActorHandle
from penstock.cluster.events import ApplicationFailed, Event, GroupAssigned, TasksHeld
from penstock.cluster.ray_cluster.running_lock import RunningLock
from penstock.cluster.watchers.broker_watch import BrokerWatch
from penstock.cluster.watchers.silence import HUNG_S
from penstock.cluster.watchers.stuck_task_watch import LOOK_EVERY_S
from penstock.cluster.watchers.topic_watch import ONE_AFTER_ANOTHER_S
from penstock.common.config import StreamsConfig
from penstock.common.errors import (
    ApplicationStateError,
    BrokerUnreachableError,
    MissingTopicError,
    StreamsError,
    TopologyError,
)
from penstock.common.handlers import UncaughtExceptionResponse
from penstock.common.ids import TaskId, TopicPartition
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.internal_topics.purger import Purger
from penstock.state.entries import PLAIN
from penstock.testing.fake_clients import FakeAdmin, FakeClients
from penstock.topology.physical.task_plan import SubtopologyTasks, TaskPlan
from tests.cluster.virtual_time import run

PLAN = TaskPlan((SubtopologyTasks(0, {"lines": 1}),))


class LivingActor:
    actor_id = "stream/1"
    ray_handle = None

    def __init__(self) -> None:
        self.stopped = asyncio.Event()
        self.killed = self.paused = False

    async def status(self, question_id: QuestionId) -> ActorStatus:
        tasks = (TaskStatus(TaskId(0, 0), TaskState.RUNNING),)
        return ActorStatus(self.actor_id, "node", 1, 1, tasks, paused=self.paused)

    async def heartbeat(self, question_id: QuestionId) -> bool:
        return not self.killed

    async def wait(self) -> ActorEnd:
        await asyncio.Event().wait()
        return ActorEnd()

    async def tell(self, order: Order) -> bool:
        if isinstance(order, Pause):
            self.paused = order.paused
        elif isinstance(order, Stop):
            self.stopped.set()
        return False

    insist = tell

    def kill(self) -> None:
        self.killed = True


class Restarted(CoordinatorActor):
    """Finds one living actor, but only when the test lets it."""

    def __init__(self, living: LivingActor) -> None:
        self.may_begin = asyncio.Event()
        self.living: Any = living
        self.looks = 0
        super().__init__("app", b"")

    async def _begin(self) -> None:
        await self.may_begin.wait()
        clients = ConfluentClients("127.0.0.1:1", "app")
        purger = Purger(frozenset(), clients.admin)
        world = RayEnvironment(
            self._deployments, clients, purger, lambda: None, self._enter, spread=False, process_id="here"
        )
        self._dispatcher = Dispatcher(Coordinator(PLAN, None, first_epoch=10), world, self._pausing, self._log)
        await self._dispatcher.recover([self.living])
        self._repeat(Work(1.0, "look at nothing", self.look))

    async def look(self) -> None:
        self.looks += 1
        if self.looks == 1:
            raise RuntimeError("a bad moment")


def periodic_work_of(coordinator: CoordinatorActor) -> PeriodicWork:
    """Returns the coordinator's own periodic work, without a member of the group and without scaling."""
    assert coordinator._dispatcher is not None
    spec = ApplicationSpec(COPY.build(), StreamsConfig.of({"application.id": "app"}))
    nobody: Any = SimpleNamespace(waits_for=None)
    reported = coordinator._failed_by, lambda: coordinator._no_broker() is not None
    return PeriodicWork(
        spec,
        FakeClients("app"),
        coordinator._dispatcher,
        nobody,
        nobody,
        coordinator._pausing,
        *reported,
        coordinator._log,
    )


@pytest.fixture(autouse=True)
def restarted(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], str]:
    """Each coordinator is one that Ray has restarted; what Ray keeps for it."""
    kept: dict[tuple[str, str], str] = {}

    def put(key: str, value: str, *, overwrite: bool, namespace: str) -> None:
        kept[namespace, key] = value

    def get(key: str, *, namespace: str) -> str | None:
        return kept.get((namespace, key))

    context = SimpleNamespace(was_current_actor_reconstructed=True, get_actor_id=lambda: "a1", gcs_address="here")
    monkeypatch.setattr(ray, "get_runtime_context", lambda: context)
    monkeypatch.setattr(RunningLock, "take", held_by_its_former_process)
    monkeypatch.setattr(asyncio, "to_thread", at_once)
    monkeypatch.setattr(internal_kv, "_internal_kv_put", put)
    monkeypatch.setattr(internal_kv, "_internal_kv_get", get)
    return kept


def held_by_its_former_process(lock: RunningLock, within_s: float | None = None) -> None:
    raise ApplicationStateError("already runs")


async def at_once(work: Callable[..., Any], *arguments: Any) -> Any:
    return work(*arguments)


def test_a_stop_that_finds_the_coordinator_just_restarted_stops_the_actors_that_live() -> None:
    async def play() -> None:
        living = LivingActor()
        coordinator = Restarted(living)
        stopping = asyncio.create_task(coordinator.stop())
        await asyncio.sleep(0)
        coordinator.may_begin.set()
        status = await asyncio.wait_for(stopping, 10)
        assert status.state is ApplicationState.NOT_RUNNING
        assert living.stopped.is_set()
        assert living.killed

    run(play())


def test_work_that_fails_now_and_then_is_done_again_and_ends_nothing() -> None:
    async def play() -> None:
        coordinator = Restarted(LivingActor())
        coordinator.may_begin.set()
        await asyncio.sleep(5)
        assert coordinator.looks > 2
        assert (await coordinator.status()).state is ApplicationState.CREATED
        await coordinator.stop()

    run(play())


def test_a_status_says_that_no_broker_answers_and_that_the_session_is_lost_until_they_are_back() -> None:
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


def test_an_application_that_ends_in_error_logs_one_error_line_that_reports_why() -> None:
    async def play() -> None:
        with capture_logs() as logged:
            coordinator = Restarted(LivingActor())
            coordinator.may_begin.set()
            await coordinator._beginning
            assert coordinator._dispatcher is not None
            coordinator._dispatcher.feed(ApplicationFailed("MissingTopicError: topic 'lines' is gone"))
            await coordinator.stop()
        assert coordinator._state is ApplicationState.ERROR
        errors = [line for line in logged if line["log_level"] == "error" and "exc_info" not in line]  # no Ray here
        assert [line["error"] for line in errors] == ["MissingTopicError: topic 'lines' is gone"]
        assert [line["new"] for line in logged if line["event"] == "application state changed"][-1] == "ERROR"

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


def test_the_status_says_that_a_source_topic_is_gone() -> None:
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


def test_an_http_server_that_does_not_answer_does_not_hold_up_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = SimpleNamespace(remote=lambda: SimpleNamespace(future=Future))
    silent = SimpleNamespace(known_address=SimpleNamespace(options=lambda **_: asked))
    monkeypatch.setattr(ray, "get_actor", lambda *_, **__: silent)

    async def play() -> None:
        coordinator = Restarted(LivingActor())
        await asyncio.wait_for(coordinator._http.ask(), 60)
        assert (await coordinator.status()).http_address is None
        coordinator._beginning.cancel()

    run(play())


def test_a_commit_before_the_coordinator_has_joined_the_group_is_answered() -> None:
    async def play() -> None:
        coordinator = Restarted(LivingActor())
        coordinator.may_begin.set()
        request = CommitRequest("stream/1", 1, {}, 1)
        assert await coordinator.commit(request) == CommitAnswer(
            False, "the coordinator is not a member of the group yet"
        )
        await coordinator.stop()
        answer = await coordinator.commit(request)
        assert answer is not None
        assert not answer.accepted

    run(play())


COPY = ps.StreamsBuilder()
COPY.stream("lines").to("copies")
SPEC: bytes = cloudpickle.dumps(  # type: ignore[no-untyped-call]  # untyped in Ray
    ApplicationSpec(COPY.build(), StreamsConfig.of({"application.id": "app"}))
)


@pytest.fixture
def living(monkeypatch: pytest.MonkeyPatch) -> LivingActor:
    """The actor of an earlier incarnation that Ray shows."""
    it = LivingActor()
    monkeypatch.setattr(StreamActorHandle, "find", lambda _: [it])
    monkeypatch.setattr(ray, "get_actor", no_http)
    return it


def no_http(*_: object, **__: object) -> None:
    raise ValueError("there is none")


def refuse(monkeypatch: pytest.MonkeyPatch, *errors: Exception) -> list[float]:
    """Have the topics refused, the last way for ever; when they were looked at."""
    left, looks = list(errors), []

    def ensure_topics(*_: object) -> None:
        looks.append(asyncio.get_running_loop().time())
        raise left.pop(0) if len(left) > 1 else left[0]

    monkeypatch.setattr(first_plan, "ensure_topics", ensure_topics)
    monkeypatch.setattr(ConfluentClients, "admin", lambda _: FakeClients("app").admin())
    return looks


@pytest.mark.parametrize("state", [ApplicationState.ERROR, ApplicationState.NOT_RUNNING])
def test_an_application_that_has_ended_stays_so_although_its_coordinator_is_restarted(
    state: ApplicationState, living: LivingActor, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = refuse(monkeypatch, MissingTopicError("it would start again"))

    async def play() -> None:
        ended = Restarted(LivingActor())
        ended._enter(state, "why" if state is ApplicationState.ERROR else None)
        await ended._ended.wait()
        ended._beginning.cancel()
        restarted = CoordinatorActor("app", SPEC)
        await asyncio.sleep(5)
        before, after = await ended.status(), await restarted.status()
        assert (after.state, after.error) == (before.state, before.error)
        assert (await asyncio.wait_for(restarted.stop(), 5)).state is state
        assert looks == []

    run(play())


def test_a_restarted_coordinator_that_cannot_begin_leaves_no_actor_at_work(
    living: LivingActor, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, BrokerUnreachableError("soon"), MissingTopicError("topic 'lines' is gone"))

    async def play() -> None:
        coordinator = CoordinatorActor("app", SPEC)
        await asyncio.wait_for(coordinator._ended.wait(), 60)
        status = await coordinator.status()
        assert (status.state, status.error) == (ApplicationState.ERROR, "MissingTopicError: topic 'lines' is gone")
        assert living.killed

    run(play())


def test_a_restarted_coordinator_says_that_it_waits_for_a_broker(
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


def test_joined_topics_may_differ_for_a_moment_also_after_a_restart(
    living: LivingActor, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = refuse(monkeypatch, TopologyError("'x' has 3, 'y' has 2"))

    async def play() -> None:
        coordinator = CoordinatorActor("app", SPEC)
        await asyncio.wait_for(coordinator._ended.wait(), 120)
        assert looks[-1] - looks[0] >= ONE_AFTER_ANOTHER_S
        assert (await coordinator.status()).state is ApplicationState.ERROR

    run(play())


def test_the_key_serdes_of_a_store_are_its_own_and_that_of_the_topic_that_places_its_keys() -> None:
    string, json, long = ps.Serdes.string(), ps.Serdes.json(), ps.Serdes.long()
    counted = ps.StreamsBuilder()
    stream = counted.stream("in", ps.Consumed.with_(json, string))
    stream.group_by_key().count(ps.Materialized.as_("own").with_key_serde(string))
    by_value = stream.group_by(lambda _, value: value, ps.Grouped.with_(string, string).with_name("by-value"))
    by_value.count(ps.Materialized.as_("grouped").with_key_serde(json))
    counted.stream("usual").group_by_key().count(ps.Materialized.as_("default"))
    entries = {"application.id": "app", "default.key.serde": long}

    async def play() -> None:
        coordinator = Restarted(LivingActor())
        spec = ApplicationSpec(counted.build(), StreamsConfig.of(entries))
        coordinator._spec = coordinator._deployments._specs[1] = spec

        async def serdes(store: str, topic: str) -> object:
            return cloudpickle.loads(await coordinator.key_serdes(store, topic))

        assert await serdes("own", "in") == (string, json, PLAIN)
        assert await serdes("grouped", "app-by-value-repartition") == (json, string, PLAIN)
        assert await serdes("default", "usual") == (long, long, PLAIN)
        coordinator.may_begin.set()
        await coordinator.stop()

    run(play())


@pytest.mark.parametrize("starts_paused", [False, True])
def test_the_last_pause_or_resume_outlives_the_coordinator_and_its_initial_setting(
    starts_paused: bool, living: LivingActor, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, BrokerUnreachableError("not yet"))
    program = ApplicationSpec(COPY.build(), StreamsConfig.of({"application.id": "app"}), paused=starts_paused)
    spec: bytes = cloudpickle.dumps(program)  # type: ignore[no-untyped-call]  # untyped in Ray

    async def play() -> None:
        first = CoordinatorActor("app", spec)
        await asyncio.sleep(1)
        assert (await first.status()).paused is starts_paused
        assert (await first.pause(not starts_paused)).paused is not starts_paused
        second = CoordinatorActor("app", spec)
        await asyncio.sleep(1)
        assert (await second.status()).paused is not starts_paused
        for each in (first, second):
            each._beginning.cancel()

    run(play())


def test_an_application_that_has_ended_is_not_paused(living: LivingActor, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, MissingTopicError("topic 'lines' is gone"))

    async def play() -> None:
        coordinator = CoordinatorActor("app", SPEC)
        await asyncio.wait_for(coordinator._ended.wait(), 60)
        status = await coordinator.pause(True)
        assert (status.state, status.paused) == (ApplicationState.ERROR, False)

    run(play())


def test_the_uncaught_exception_handler_hears_of_what_ends_the_coordinator_too(
    living: LivingActor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refuse(monkeypatch, MissingTopicError("topic 'lines' is gone"))
    heard = tmp_path / "heard"

    def handler(exception: BaseException) -> UncaughtExceptionResponse:
        heard.write_text(repr(exception))
        return UncaughtExceptionResponse.REPLACE_ACTOR

    program = ApplicationSpec(
        COPY.build(), StreamsConfig.of({"application.id": "app"}), uncaught_exception_handler=handler
    )
    spec: bytes = cloudpickle.dumps(program)  # type: ignore[no-untyped-call]  # untyped in Ray

    async def play() -> None:
        coordinator = CoordinatorActor("app", spec)
        await asyncio.wait_for(coordinator._ended.wait(), 60)
        assert (await coordinator.status()).state is ApplicationState.ERROR, "whatever it answers"
        assert heard.read_text() == repr(MissingTopicError("topic 'lines' is gone"))

    run(play())


def test_the_state_machine_hears_of_a_pause_and_of_brokers_that_do_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        coordinator = Restarted(LivingActor())
        coordinator.may_begin.set()
        await coordinator._beginning
        assert coordinator._dispatcher is not None
        fed: list[Event] = []
        monkeypatch.setattr(coordinator._dispatcher, "feed", fed.append)
        work = periodic_work_of(coordinator)
        await work._check_holds()
        coordinator._pausing.paused = True
        await work._check_holds()
        await work._check_holds()
        coordinator._pausing.paused = False
        coordinator._broker_watch = BrokerWatch("app", "kafka:9092", FakeClients("app").admin, lambda: 0.0)
        coordinator._broker_watch.reason = "no broker answers at kafka:9092"
        await work._check_holds()
        coordinator._broker_watch.reason = None
        await work._check_holds()
        assert fed == [TasksHeld(Hold.PAUSED), TasksHeld(Hold.NO_BROKER), TasksHeld(None)]

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
