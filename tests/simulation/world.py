"""One run of a whole cluster: it works, faults befall it, then it must come to rest with all that was promised."""

from __future__ import annotations

import asyncio
import math
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any, cast

from ray.exceptions import RayError

from penstock.actors.spec import ApplicationSpec
from penstock.actors.status import TaskState
from penstock.cluster.environment import ActorLostError
from penstock.cluster.rollout import NEVER
from penstock.cluster.status import ApplicationState
from penstock.cluster.wishes import NO_WISHES
from penstock.common.config import StreamsConfig
from penstock.common.errors import StreamsError
from penstock.common.ids import Offsets, TopicPartition
from penstock.common.topics import NewTopic
from tests.cluster.virtual_time import VirtualTimeLoop
from tests.simulation.actor_process import ActorProcess
from tests.simulation.coordinator_process import CoordinatorProcess
from tests.simulation.ghosts import Writers
from tests.simulation.one_host import write
from tests.simulation.operations import become_paused
from tests.simulation.programs import APPLICATION, Records, Row
from tests.simulation.setting import Setting
from tests.simulation.simulated_group import Group
from tests.simulation.simulated_kafka import SimulatedBroker
from tests.simulation.simulated_objects import SimulatedObjects
from tests.simulation.simulated_threads import Processes
from tests.simulation.virtual_clock import BEGIN_MS, VirtualClock

_REST_WITHIN_S = 900.0
_STILL_BESIDE_COMMIT_S = 3.0
_LONGEST_CALM_MESSAGE_S = 0.05
_SETTLES_S = 60.0


class ViolationError(AssertionError):
    """A promise is broken."""


class Cluster:
    """One Ray cluster with a coordinator of the application: nodes, CPUs, processes."""

    def __init__(self, world: World, name: str, spec: ApplicationSpec, nodes: int, cpus: int) -> None:
        self.world, self.name, self.spec, self.cpus = world, name, spec, cpus
        self.nodes = [f"{name}-node{number}" for number in range(nodes)]
        self._last_node = nodes - 1
        self.actors: dict[str, ActorProcess] = {}
        self.coordinator: CoordinatorProcess | None = None
        self.rollout = NEVER
        self.wishes = NO_WISHES
        """The values that Ray keeps for the next coordinator."""
        self.rolled_out_s = -math.inf
        """The time at which the last roll-out changed."""
        self.bad_generations: set[int] = set()
        """The versions of the program that fail."""
        self.paused = False
        self.wanted: int | None = None
        """The number of actors that a user wants; None before there is a wish."""
        self.draining: dict[str, float] = {}
        """The time at which each drained node ends."""

    @property
    def is_settled(self) -> bool:
        """False during a roll-out and shortly behind it: actors of old and failed versions may be killed."""
        return self.rollout.phase.is_over and self.world.now() - self.rolled_out_s > _SETTLES_S

    def reaches_node(self, node_id: str) -> bool:
        """True if the coordinator reaches the node: every process there that exists."""
        return all(it.reaches_ray for it in self.actors.values() if it.node == node_id and it.exists)

    def add_node(self) -> None:
        self._last_node += 1
        self.nodes.append(f"{self.name}-node{self._last_node}")

    def start_coordinator(self, restarted: bool = False) -> None:
        self.world.note(f"{self.name}: coordinator starts")
        self.coordinator = CoordinatorProcess(self, restarted)

    def end_coordinator(self) -> None:
        if self.coordinator is not None:
            self.world.note(f"{self.name}: coordinator is killed")
            self.coordinator.end()
        self.coordinator = None

    def living(self) -> list[ActorProcess]:
        return [actor for actor in self.actors.values() if actor.exists and not actor.taken_for_dead]

    def found(self) -> list[ActorProcess]:
        """The actors that Ray knows."""
        return self.living()

    def choose_node(self, wanted: str = "") -> str:
        """Chooses a node as Ray does: the wanted one if it exists, else one with few actors."""
        open_nodes = [node for node in self.nodes if node not in self.draining] or self.nodes
        if wanted in open_nodes:
            return wanted
        used = [actor.node for actor in self.living()]
        return min(open_nodes, key=lambda node: (used.count(node), node))

    async def a_cpu_is_free(self, actor: ActorProcess) -> None:
        """Raises ActorLostError when the actor is gone before."""
        await asyncio.sleep(self.world.rng.uniform(0.1, 2.0))
        while actor.exists and len(self.living()) > self.cpus:
            await asyncio.sleep(0.5)
        if not actor.exists:
            raise ActorLostError("gone before it started")


class World:
    """Everything follows from ``seed``, and from the program."""

    def __init__(
        self, seed: int, setting: Setting, folder: Path, processes: Processes, objects: SimulatedObjects
    ) -> None:
        self.setting, self.swarm = setting, setting.swarm
        self.processes, self.objects = processes, objects
        self.program = program = setting.program
        self.rng = Random(f"world {seed}")
        self.loop: Any = asyncio.get_running_loop()
        self.clock = VirtualClock(cast("VirtualTimeLoop", self.loop))
        self.broker = SimulatedBroker(self.now, setting.swarm.moves_partitions)
        self.group = Group(self.broker, APPLICATION)
        self.exactly_once = setting.exactly_once
        self.trace: list[str] = []
        self.steps = 0
        self.is_calm = False
        """True when the faults have ended."""
        self.bunches: list[list[Row]] = []
        self.records = Records(self.rng, program, BEGIN_MS)
        self.violations: list[str] = []
        self.writers = Writers(self.now, self.violation)
        self._folder = folder
        # What the clock has made of the last records may wait for a commit.
        self._still_for_s = _STILL_BESIDE_COMMIT_S + setting.config["commit.interval.ms"] / 1000
        self._last_victim: Any = None
        self.longest_message_s, self.late = setting.swarm.longest_message_s, setting.swarm.late
        self._tasks: dict[asyncio.Task[Any], None] = {}
        settings = {"application.id": APPLICATION, "state.dir": folder, **setting.config}
        self.spec = ApplicationSpec(program.topology, StreamsConfig.of(settings))
        self.topics = {
            **dict.fromkeys([*program.joined, *program.late, *program.tables, *program.streams], setting.partitions),
            **dict.fromkeys(program.global_topics, 1),
        }
        for topic, count in self.topics.items():
            self.broker.create_topic(NewTopic(topic, count))
        self._feed(self.records.facts)
        self.clusters: list[Cluster] = []

    def begin(self) -> None:
        self.note(f"{self.setting}")
        self.note(f"{self.swarm}")
        for number in range(self.setting.clusters):
            cluster = Cluster(self, f"p{number + 1}", self.spec, self.setting.nodes, self.setting.cpus)
            self.clusters.append(cluster)
            cluster.start_coordinator()
        self.spawn(self._abort_expired())
        self.spawn(self.group.watch())

    # ---- what the parts need ----

    def now(self) -> float:
        now: float = self.loop.time()
        return now

    def ghost_s(self) -> float:
        """Returns the seconds for which a process that Ray takes for dead continues to work.

        At least once with several clusters: 0. The group then gives its tasks to another cluster, which does not wait
        for the end of the lease (docs/RELIABILITY.md).
        """
        return self.rng.uniform(0, 120) if self.exactly_once or len(self.clusters) == 1 else 0.0

    def disk_of(self, node: str) -> Path:
        return self._folder / node

    def lose_node(self, node: str) -> None:
        """Ends all actors of a node and deletes its disk."""
        self.note(f"lose {node}")
        for cluster in self.clusters:
            for actor in list(cluster.actors.values()):
                if actor.node == node:
                    actor.end()
        shutil.rmtree(self.disk_of(node), ignore_errors=True)

    def note(self, what: str) -> None:
        self.trace.append(f"{self.now():9.3f} {what}")

    def violation(self, what: str) -> None:
        self.note(f"VIOLATION: {what}")
        self.violations.append(what)

    def broke(self, error: BaseException) -> None:
        """A part has raised what it must not raise."""
        if not isinstance(error, StreamsError):
            self.violation(f"{type(error).__name__}: {error}")

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, RayError):
            self.broke(error)

    # ---- Kafka ----

    async def _abort_expired(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            if self.broker.answers:
                self.broker.abort_expired()

    def _feed(self, rows: list[Row]) -> None:
        self.bunches.append(rows)
        write(self.broker, rows)

    def feed(self) -> None:
        """Write another bunch, if there is a broker."""
        if self.broker.answers:
            self._feed(self.records.bunch())

    def feed_each_key(self) -> None:
        """Write a record of each key to each topic, so that each task commits again."""
        self._feed(self.records.each_key())

    def feed_closing(self) -> None:
        """Write what closes the windows of all joins."""
        self._feed(self.records.closing())

    # ---- rest ----

    def calm(self) -> None:
        """All that was cut off is connected again; what died is dead."""
        self.note("calm")
        self.is_calm = self.objects.is_calm = True
        self.late = 0.0
        self.longest_message_s = min(self.longest_message_s, _LONGEST_CALM_MESSAGE_S)
        self.broker.down = False
        self.broker.leaderless.clear()
        for cluster in self.clusters:
            cluster.paused = False
            cluster.draining.clear()
            cluster.cpus = max(cluster.cpus, cluster.wanted or 0)
            if cluster.coordinator is None:
                cluster.start_coordinator(restarted=True)
            else:
                cluster.coordinator.cut_from_broker_until = 0.0
                become_paused(cluster.coordinator, False)
            for actor in cluster.actors.values():
                actor.frozen_until = min(actor.frozen_until, self.now())
                actor.cut_from_ray_until = actor.cut_from_broker_until = 0.0
                actor.throttled_until = actor.commits_held_until = 0.0

    async def pass_time(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if self.violations:
            raise ViolationError("; ".join(self.violations))

    def note_downloads(self) -> None:
        if self.objects.downloads:
            self.note(f"{self.objects.downloads} files of checkpoints were downloaded")

    async def come_to_rest(self) -> None:
        """Returns when nothing is left to do. Raises ViolationError."""
        deadline, still_s = self.now() + _REST_WITHIN_S, 0.0
        while still_s < self._still_for_s:
            await self.pass_time(0.5)
            why = self.unrest()
            still_s = 0.0 if why else still_s + 0.5
            if why and self.now() > deadline:
                raise ViolationError(f"never at rest: {why}")
        self.note("at rest")

    def unrest(self) -> str | None:
        """The conditions that do not hold yet."""
        for cluster in self.clusters:
            coordinator = cluster.coordinator
            if coordinator is None or coordinator.state is not ApplicationState.RUNNING:
                return f"{cluster.name} is {coordinator.state.value if coordinator else 'without a coordinator'}"
            if any(actor.taken_for_dead and actor.exists for actor in cluster.actors.values()):
                return "a ghost is there"
            if cluster.coordinator is not None and (moving := self._moving(cluster)):
                return moving
        return self._uncommitted()

    def _moving(self, cluster: Cluster) -> str | None:
        assert cluster.coordinator is not None
        assert cluster.coordinator.dispatcher is not None
        machine = cluster.coordinator.dispatcher.machine
        if machine.tasks and not machine.rollout.phase.is_over:  # without tasks nothing shows that a version works
            return f"the roll-out is {machine.rollout.phase.value}"
        if machine.starting or machine.moving:
            return "actors start, or tasks move"
        running = {
            task.id: actor.name
            for actor in cluster.living()
            if actor.actor.loop is not None
            for task in actor.actor.loop._tasks.values()
            if task.state is TaskState.RUNNING
        }
        if running != machine.placement:
            return f"{running} run, {machine.placement} are placed"
        lags = [lag for status in cluster.coordinator.dispatcher.statuses for lag in (s.lag for s in status.standbys)]
        return "standbys lag behind" if any(lags) else self._behind_commits(cluster)

    def _behind_commits(self, cluster: Cluster) -> str | None:
        """A standby that is held back behind commits, and has not heard of the last one."""
        committed = self.committed()
        for actor in cluster.living():
            loop = actor.actor.loop
            for standby in () if loop is None else loop._standbys.by_id.values():
                heard = {tp: committed[tp] for tp in standby.sources if tp in committed}
                if standby.held and standby._committed != heard:
                    return f"standby {standby.id} on {actor.name} has not heard of the last commit"
        return None

    def _uncommitted(self) -> str | None:
        committed = self.committed()
        for tp in sorted(self.reads()):
            log = self.broker.log(tp)
            to = committed[tp].offset if tp in committed else 0
            left = log.records[max(0, to - log.beginning) :]
            if any(record.is_committed or record.transaction is None for record in left if not record.is_marker):
                return f"{tp} is committed up to {to} of {log.end}"
        return None

    def committed(self) -> Offsets:
        """The offsets of the consumer group."""
        return self.broker.committed(APPLICATION)

    def reads(self) -> frozenset[TopicPartition]:
        """The partitions that the tasks of all clusters read."""
        for cluster in self.clusters:
            if cluster.coordinator is not None and cluster.coordinator.dispatcher is not None:
                return cluster.coordinator.dispatcher.machine.plan.reads
        return frozenset()

    def end(self) -> None:
        """Close what is open."""
        for cluster in self.clusters:
            cluster.end_coordinator()
            for actor in cluster.actors.values():
                actor.end()
        for task in list(self._tasks):
            task.cancel()
        shutil.rmtree(self._folder, ignore_errors=True)

    def choose(self, found: Callable[[Cluster], list[Any]]) -> Any:
        """One of what the clusters have, or None. Often the one that was chosen last."""
        among = [one for cluster in self.clusters for one in found(cluster)]
        if not among:
            return None
        if self._last_victim not in among or self.rng.random() >= self.swarm.same_victim:
            self._last_victim = self.rng.choice(among)
        return self._last_victim
