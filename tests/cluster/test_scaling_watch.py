"""The number of stream actors that users and load want, over a real machine and dispatcher without Ray."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
import structlog

from penstock.actors.loop.lease import QuestionId
from penstock.actors.orders import Assign, Order, Stop
from penstock.actors.status import ActorEnd, ActorStatus, TaskState, TaskStatus
from penstock.cluster.coordinator.coordinator import Coordinator
from penstock.cluster.coordinator_shell.dispatch import Dispatcher
from penstock.cluster.coordinator_shell.pausing import Pausing
from penstock.cluster.environment import NodeAnswer
from penstock.cluster.events import ClusterResized, Event, GroupAssigned, Instruction, NodesDraining
from penstock.cluster.placement.standby_assignor import standby_policy
from penstock.cluster.rollout import Rollout
from penstock.cluster.scaling.scaling_watch import ScalingWatch
from penstock.cluster.scaling.wanted_count import WantedCount
from penstock.cluster.status import ApplicationState
from penstock.cluster.watchers.drain_watch import DrainWatch
from penstock.cluster.wishes import Wishes
from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError
from penstock.common.ids import Offsets, TaskId, TopicPartition
from penstock.topology.physical.task_plan import SubtopologyTasks, TaskPlan

QUIET: Any = structlog.wrap_logger(None, wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
TASKS = 4


class Handle:
    """An actor that carries out orders at once, and reports of itself what the test wants."""

    def __init__(self, actor_id: str) -> None:
        self.actor_id = actor_id
        self.ray_handle: Any = None
        self.epoch, self.tasks = 0, tuple[TaskId, ...]()
        self.stopped = asyncio.Event()

    async def start(self, slot: int) -> str:
        return "node"

    async def tell(self, order: Order) -> bool:
        if isinstance(order, Assign):
            self.epoch, self.tasks = order.epoch, tuple(order.sources)
        elif isinstance(order, Stop):
            self.stopped.set()
        return False

    insist = tell

    async def wait(self) -> ActorEnd:
        await self.stopped.wait()
        return ActorEnd()

    async def status(self, question_id: QuestionId) -> ActorStatus | None:
        tasks = tuple(TaskStatus(task, TaskState.RUNNING) for task in self.tasks)
        return ActorStatus(self.actor_id, "node", 1, self.epoch, tasks)

    async def heartbeat(self, question_id: QuestionId) -> bool:
        return True

    def kill(self) -> None:
        self.stopped.set()


class Environment:
    def create_actor(self, actor_id: str, generation: int, node: str, avoid: frozenset[str]) -> Handle:
        return Handle(actor_id)

    async def commit(self, offsets: Offsets) -> None: ...
    async def fence(self, slot: int) -> None: ...
    async def node(self, node_id: str) -> NodeAnswer:
        return NodeAnswer.ANSWERS

    def reported(self, status: ActorStatus) -> None: ...
    def entered(self, state: ApplicationState, error: str | None) -> None: ...
    def decided(self, event: Event, instructions: Sequence[Instruction]) -> None: ...
    def rolled_out(self, rollout: Rollout) -> None: ...
    def wished(self, wishes: Wishes) -> None: ...


async def _keep_nothing(paused: bool) -> None: ...


class Application:
    """A coordinator with its watch. ``kept``: what Ray would keep over a restart."""

    def __init__(self, kept: WantedCount | None = None, tasks: int = TASKS, **entries: Any) -> None:
        config = StreamsConfig.of({"application.id": "app", **entries})
        self.tasks = tasks
        plan = TaskPlan((SubtopologyTasks(0, {"in": tasks}, stateful=True, logged=True),))
        exactly_once = config.processing_guarantee == "exactly_once_v2"
        self.machine = Coordinator(plan, None, 1, exactly_once, standby_policy(config))
        self.dispatcher = Dispatcher(self.machine, self._environment(), Pausing(_keep_nothing, QUIET), QUIET)
        self.kept = kept
        self.now_s = 0.0
        self.watch = ScalingWatch(config, self.dispatcher, kept, self._keep, lambda: self.now_s, QUIET)

    def _environment(self) -> Environment:
        return Environment()

    def _keep(self, wanted: WantedCount) -> None:
        self.kept = wanted

    async def begin(self, cpus: int) -> None:
        await self.watch.cluster_has(cpus)
        self.dispatcher.feed(ClusterResized(cpus))
        self.dispatcher.feed(GroupAssigned(frozenset(TopicPartition("in", number) for number in range(self.tasks))))
        await self.settle()
        assert self.machine.state is ApplicationState.RUNNING

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)
            await self.dispatcher.check_actors()


def play(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story())


def test_without_bounds_there_is_one_actor_per_cpu_as_ever() -> None:
    async def story() -> None:
        app = Application()
        await app.begin(3)
        assert len(app.machine.actors) == 3
        app.dispatcher.feed(ClusterResized(2))
        await app.settle()
        assert len(app.machine.actors) == 2
        assert app.kept is None

    play(story)


@pytest.mark.parametrize(
    ("entries", "cpus", "begins"),
    [
        ({"min.stream.actors": 2}, 1, 2),
        ({"max.stream.actors": 2}, 8, 2),
        ({"min.stream.actors": 1, "max.stream.actors": 4}, 3, 3),
        ({"min.stream.actors": 9}, 1, TASKS),
        ({"max.stream.actors": 3}, 0, 1),
    ],
)
def test_with_bounds_it_begins_with_one_per_cpu_within_them(entries: dict[str, int], cpus: int, begins: int) -> None:
    async def story() -> None:
        app = Application(None, **entries)
        await app.begin(cpus)
        assert app.machine.wanted == len(app.machine.actors) == begins
        await app.watch.cluster_has(8)  # nodes that come do not bring actors with them
        assert app.machine.wanted == begins

    play(story)


def test_an_actor_is_added_and_the_one_that_is_removed_is_named() -> None:
    async def story() -> None:
        app = Application()
        await app.begin(1)
        assert await app.watch.change(1, "call 1") == "stream/2"
        await app.settle()
        assert sorted(set(app.machine.placement.values())) == ["stream/1", "stream/2"]
        removed = await app.watch.change(-1, "call 2")
        await app.settle()
        assert app.machine.actors == tuple({"stream/1", "stream/2"} - {removed})
        app.dispatcher.feed(ClusterResized(4))
        assert app.machine.wanted == 1, "what a user wants stays so"

    play(story)


def test_a_call_that_comes_again_changes_nothing_also_after_a_restart() -> None:
    async def story() -> None:
        app = Application()
        await app.begin(1)
        first = await app.watch.change(1, "call")
        assert await app.watch.change(1, "call") == first
        assert app.machine.wanted == 2
        again = Application(app.kept)
        await again.begin(1)
        assert again.machine.wanted == 2
        assert await again.watch.change(1, "call") == first
        assert again.machine.wanted == 2

    play(story)


def test_none_is_added_or_removed_where_that_is_not_possible() -> None:
    async def story() -> None:
        app = Application(None, **{"min.stream.actors": 1, "max.stream.actors": 2})
        assert await app.watch.change(1, "too early") is None
        await app.begin(1)
        assert await app.watch.change(-1, "none left") is None
        assert await app.watch.change(1, "one more") == "stream/2"
        assert await app.watch.change(1, "too many") is None
        assert await app.watch.become(3) == "the maximum is 2 (max.stream.actors)"
        assert await app.watch.become(0) == "the minimum is 1 (min.stream.actors)"
        assert app.machine.wanted == 2
        unbounded = Application()
        await unbounded.begin(TASKS)
        assert await unbounded.watch.change(1, "more than tasks") is None
        assert unbounded.machine.wanted == TASKS

    play(story)


def test_the_status_reports_the_wanted_number_and_the_reason_that_nothing_is_advised_yet() -> None:
    async def story() -> None:
        app = Application(None, **{"max.stream.actors": 3})
        assert app.watch.status is None
        await app.begin(2)
        await app.watch.look()
        status = app.watch.status
        assert status is not None
        assert (status.wanted, status.advised, status.minimum, status.maximum) == (2, 2, 1, 3)
        assert status.automatic
        assert status.reason == "not measured for long enough yet"
        app.dispatcher.feed(NodesDraining({"node": 60.0}))
        await app.watch.look()
        assert app.watch.status is not None
        assert app.watch.status.reason == "actors leave a node that is drained"

    play(story)


def test_tasks_per_actor_and_bounds_contradict_each_other() -> None:
    with pytest.raises(ConfigError, match=r"'tasks\.per\.actor' fixes the number"):
        StreamsConfig.of({"application.id": "a", "tasks.per.actor": 1, "max.stream.actors": 2})
    with pytest.raises(ConfigError, match=r"'min\.stream\.actors': 3 is above 'max\.stream\.actors' \(2\)"):
        StreamsConfig.of({"application.id": "a", "min.stream.actors": 3, "max.stream.actors": 2})


def test_draining_nodes_are_reported_while_they_drain_and_once_more_when_they_do_not() -> None:
    draining: dict[str, int] = {}
    watch = DrainWatch("app", lambda: draining, lambda: 100_000.0)
    assert watch.check() is None
    draining |= {"a": 130_000, "b": 0}
    assert watch.check() == NodesDraining({"a": 30.0, "b": None})
    assert watch.check() == NodesDraining({"a": 30.0, "b": None})
    draining.clear()
    assert watch.check() == NodesDraining({})
    assert watch.check() is None


def test_with_standbys_there_may_be_more_actors_than_tasks() -> None:
    async def story() -> None:
        standby: dict[str, Any] = {"num.standby.replicas": 1}
        app = Application(tasks=1, **standby)
        await app.begin(1)
        assert app.watch.status is not None
        assert (app.watch.status.wanted, app.watch.status.maximum) == (1, 2)
        assert await app.watch.change(1, "a call") == "stream/2"
        assert await app.watch.change(1, "another") is None
        assert len(app.machine.actors) == 2

    play(story)
