"""The coordinator against a world that loses, delays and restarts, played from a seed.

Actors here take an assignment some time after it was sent, and finish releasing some time later still; in between they
hold the old tasks and the new ones. The coordinator may be restarted at any time with messages under way.
"""

from __future__ import annotations

import random

import pytest

from penstock.actors.messages import ApplicationState, CommitRequest
from penstock.cluster.coordinator import Coordinator
from penstock.cluster.events import (
    AcceptCommit,
    ActorAssigned,
    ActorLost,
    ActorRecovered,
    ActorReported,
    ActorStopped,
    ActorUp,
    AssignTasks,
    ClusterResized,
    CommitRequested,
    Event,
    GroupAssigned,
    Instruction,
    KillActor,
    SetTimer,
    StartActor,
    StopActor,
    StopRequested,
    Timer,
    TimerFired,
)
from penstock.common.ids import CommittedOffset, TaskId, TopicPartition
from penstock.topology.task_plan import SubtopologyTasks, TaskPlan


class WorldActor:
    def __init__(self, name: str) -> None:
        self.name = name
        self.started = False
        self.epoch = 0
        self.tasks: set[TaskId] = set()
        self.releasing: set[TaskId] = set()
        self.inbox: list[AssignTasks] = []

    @property
    def holds(self) -> set[TaskId]:
        return self.tasks | self.releasing


class World:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.plan = TaskPlan(
            tuple(
                SubtopologyTasks(sub, {f"t{sub}": self.rng.randint(1, 5)}, stateful=self.rng.random() < 0.5)
                for sub in range(self.rng.randint(1, 3))
            )
        )
        self.all = frozenset(partition for it in self.plan.partitions.values() for partition in it)
        self.tasks_per_actor = self.rng.choice([None, None, 1, 2])
        self.actors: dict[str, WorldActor] = {}
        self.stopping: set[str] = set()
        self.events: list[Event] = []
        self.timers: set[Timer] = set()
        self.assigned = self.all
        self.cpus = 2
        self.incarnation = 0
        self.moves = 0
        self.machine = self.new_machine()

    # ---- the coordinator's side ----

    def new_machine(self) -> Coordinator:
        self.incarnation += 1
        machine = Coordinator(self.plan, self.tasks_per_actor, first_epoch=1_000_000 * self.incarnation)
        self.machine = machine
        self.events = [event for event in self.events if isinstance(event, ActorStopped)]
        self.timers = set()
        for actor in list(self.actors.values()):
            # An actor that was told to stop goes on doing so; the shell sees it until it is gone.
            if actor.name in self.stopping or not actor.started:
                del self.actors[actor.name]
                self.stopping.discard(actor.name)
            else:
                self.feed(ActorRecovered(actor.name, actor.epoch, frozenset(actor.holds)))
        self.events.clear()
        self.feed(ClusterResized(self.cpus))
        self.feed(GroupAssigned(self.assigned))
        return machine

    def feed(self, event: Event) -> list[Instruction]:
        instructions = self.machine.handle(event)
        for instruction in instructions:
            self.obey(instruction)
        self.check()
        return instructions

    def obey(self, instruction: Instruction) -> None:
        match instruction:
            case StartActor(name):
                assert name not in self.actors
                self.actors[name] = WorldActor(name)
            case AssignTasks(name, _, _):
                if name in self.actors:
                    self.actors[name].inbox.append(instruction)
            case StopActor(name):
                self.stopping.update({name} & self.actors.keys())
            case KillActor(name):
                self.actors.pop(name, None)
                self.stopping.discard(name)
            case SetTimer(timer, _):
                self.timers.add(timer)

    def check(self) -> None:
        held = [task for actor in self.actors.values() for task in actor.holds]
        assert len(held) == len(set(held)), "two actors hold one task"

    # ---- the world's side ----

    def start_one(self) -> None:
        waiting = [actor for actor in self.actors.values() if not actor.started]
        if waiting:
            actor = self.rng.choice(waiting)
            actor.started = True
            self.events.append(ActorUp(actor.name))

    def take_one(self) -> None:
        ready = [actor for actor in self.actors.values() if actor.inbox]
        if ready:
            actor = self.rng.choice(ready)
            message = actor.inbox.pop(0)
            if message.epoch > actor.epoch:
                actor.releasing |= actor.tasks - message.tasks
                self.moves += len(message.tasks - actor.tasks)
                actor.epoch, actor.tasks = message.epoch, set(message.tasks)
            self.check()

    def release_one(self) -> None:
        ready = [actor for actor in self.actors.values() if actor.epoch]
        if ready:
            actor = self.rng.choice(ready)
            actor.releasing.clear()
            self.events.append(ActorAssigned(actor.name, actor.epoch))

    def report_one(self) -> None:
        if self.actors:
            actor = self.rng.choice(list(self.actors.values()))
            self.events.append(ActorReported(actor.name, frozenset(actor.tasks)))

    def stop_one(self) -> None:
        if self.stopping:
            name = self.rng.choice(sorted(self.stopping))
            self.stopping.discard(name)
            if self.actors.pop(name, None):
                self.events.append(ActorStopped(name))

    def lose_one(self) -> None:
        if self.actors:
            name = self.rng.choice(sorted(self.actors))
            del self.actors[name]
            self.stopping.discard(name)
            self.events.append(ActorLost(name, "killed"))

    def deliver_one(self) -> None:
        if self.events:
            # Events about one actor keep their order, those about different actors need not.
            event = self.rng.choice(self.events)
            same = [it for it in self.events if getattr(it, "actor_id", 0) == getattr(event, "actor_id", 0)]
            self.events.remove(same[0])
            self.feed(same[0])

    def fire_one(self) -> None:
        if self.timers:
            timer = self.rng.choice(sorted(self.timers, key=lambda it: it.name))
            self.timers.discard(timer)
            self.feed(TimerFired(timer))

    def resize(self) -> None:
        self.cpus = self.rng.randint(0, 6)
        self.feed(ClusterResized(self.cpus))

    def regroup(self) -> None:
        share = self.rng.random()
        self.assigned = frozenset(p for p in self.all if self.rng.random() < share)
        self.feed(GroupAssigned(self.assigned))

    def commit(self) -> None:
        if not self.actors:
            return
        actor = self.rng.choice(list(self.actors.values()))
        partitions: set[TopicPartition] = {p for task in actor.holds for p in self.plan.partitions[task]}
        epoch = actor.epoch - self.rng.choice([0, 0, 0, 1])
        request = CommitRequest(actor.name, epoch, dict.fromkeys(partitions, CommittedOffset(1)))
        answer, *_ = self.feed(CommitRequested(request))
        if isinstance(answer, AcceptCommit):
            assert partitions <= self.assigned
            others = {task for other in self.actors.values() if other is not actor for task in other.holds}
            assert not {p for task in others for p in self.plan.partitions[task]} & partitions
        else:
            actor.tasks.clear()  # it drops what it may not commit

    def restart(self) -> None:
        self.new_machine()

    def settle(self) -> None:
        """No more faults: everything under way arrives."""
        for _ in range(150):
            for step in (self.start_one, self.take_one, self.release_one, self.report_one, self.stop_one):
                step()
            while self.events:
                self.deliver_one()
            self.fire_one()


@pytest.mark.parametrize("seed", range(80))
def test_whatever_happens_no_task_is_held_twice_and_at_last_all_run(seed: int) -> None:
    print(f"seed {seed}")
    world = World(seed)
    steps = [world.start_one, world.take_one, world.release_one, world.report_one, world.stop_one, world.deliver_one]
    faults = [world.lose_one, world.resize, world.regroup, world.restart, world.fire_one, world.commit]
    for _ in range(300):
        world.rng.choice(steps * 6 + faults)()
    world.assigned = world.all
    world.feed(GroupAssigned(world.all))
    world.settle()
    assert world.machine.state is ApplicationState.RUNNING
    held = {task: actor.name for actor in world.actors.values() for task in actor.holds}
    assert set(held) == set(world.plan.partitions)
    assert held == world.machine.placement
    loads = [len(actor.tasks) for actor in world.actors.values()]
    assert max(loads) - min(loads) <= 1
    moves = world.moves
    for _ in range(100):
        world.rng.choice(steps)()
    assert world.moves == moves, "tasks move although nothing has changed"
    world.feed(StopRequested())
    world.settle()
    assert world.machine.state.value == "NOT_RUNNING"
    assert not world.actors
