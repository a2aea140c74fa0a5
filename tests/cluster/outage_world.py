"""The production coordinator, dispatcher and stream loops on the fake broker, in virtual time.

The broker, or the coordinator, may be away for any time. Clients behave as librdkafka does meanwhile: records expire,
and a call about a transaction fails after its own time-out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import penstock as ps
from penstock.actors.commit_messages import CommitAnswer, CommitRequest
from penstock.actors.commits.exactly_once import transactional_id
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.status import ActorStatus, TaskState
from penstock.cluster import events
from penstock.cluster.actor_record import Phase
from penstock.cluster.coordinator.coordinator import Coordinator
from penstock.cluster.coordinator_shell.coordinator_actor import ANSWER_WITHIN_S
from penstock.cluster.coordinator_shell.dispatch import Dispatcher
from penstock.cluster.coordinator_shell.pausing import Pausing
from penstock.cluster.environment import ActorHandle, NodeAnswer
from penstock.cluster.events import Event, Instruction
from penstock.cluster.rollout import Rollout
from penstock.cluster.status import ApplicationState
from penstock.cluster.wishes import Wishes
from penstock.common.config import StreamsConfig
from penstock.common.errors import StreamsError
from penstock.common.ids import CommittedOffset, Offsets, TopicPartition
from penstock.common.topics import NewTopic
from penstock.testing.fake_broker import FakeBroker, FakeRecord
from penstock.testing.fake_clients import FakeClients
from penstock.topology.physical.task_plan import SubtopologyTasks, TaskPlan
from tests.cluster.outage_actor import AWAY_S, QUIET, LivingActor
from tests.cluster.outage_clients import APPLICATION, LOOK_S, STATIC_MEMBER, Clients

PARTITIONS = 4
IN = [TopicPartition("in", number) for number in range(PARTITIONS)]
SESSION_S = 45.0
REJOIN_S = 1.0
"""Time from the broker's return until the group hands out its partitions."""


def topology() -> ps.Topology:
    """Counts the records of ``in`` per key, and adds to each count the name that a global table has for the key."""
    string = ps.Serdes.string()
    builder = ps.StreamsBuilder()
    in_memory: Any = ps.Materialized.as_(ps.Stores.in_memory_key_value_store("names-store"))
    names = builder.global_table("names", ps.Consumed.with_(string, string), in_memory)
    (
        builder.stream("in", ps.Consumed.with_(string, string))
        .group_by_key()
        .count(ps.Materialized.as_(ps.Stores.in_memory_key_value_store("counts")))
        .to_stream()
        .left_join(names, lambda key, _: key, lambda count, name: f"{name}:{count}")
        .to("out", ps.Produced.with_(string, string))
    )
    return builder.build()


class OutageWorld:
    """One application of ``actors`` stream actors; also the environment of its dispatcher."""

    def __init__(self, directory: Path, exactly_once: bool, actors: int = 2) -> None:
        self.directory, self.exactly_once, self.wanted = directory, exactly_once, actors
        self.broker = FakeBroker()
        self.clients = Clients(FakeClients(APPLICATION, self.broker, read_committed=exactly_once))
        guarantee = "exactly_once_v2" if exactly_once else "at_least_once"
        self.config = StreamsConfig.of(
            {"application.id": APPLICATION, "state.dir": directory, "commit.interval.ms": 100,
             "processing.guarantee": guarantee}
        )  # fmt: skip
        self.topology = topology()
        self.plan = TaskPlan((SubtopologyTasks(1, {"in": PARTITIONS}, stateful=True),))
        topics = [NewTopic(name, PARTITIONS) for name in ("in", "out", "app-counts-changelog")]
        self.clients.admin().create_topics([*topics, NewTopic("names", 1)])
        self.ended: list[str] = []
        """Every actor that the coordinator has ended, in order."""
        self.actors: dict[str, LivingActor] = {}
        self.states: list[ApplicationState] = []
        self.dispatcher: Dispatcher | None = None
        self.begins_when: Callable[[], bool] | None = None
        """The broker's outage begins after the first step of a stream loop after which this holds."""
        self.sent = 0
        self._incarnation = 0
        self._in_session = False
        self._joined = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._errors: list[BaseException] = []

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._errors.append(error)

    def look(self) -> None:
        """Begins the outage if its condition holds after a step of a stream loop."""
        if self.begins_when is not None and self.begins_when():
            self.begins_when, self.broker.down = None, True

    # ---- the application ----

    def write_names(self) -> None:
        """Writes the rows of the global table."""
        for tp in IN:
            key = f"k{tp.partition}"
            self.broker.append("names", FakeRecord(key.encode(), f"name of {key}".encode(), 1, None))

    def scale(self, count: int) -> None:
        """Changes the number of actors, as a user does."""
        self.wanted = count
        assert self.dispatcher is not None
        self.dispatcher.feed(events.ActorsWanted(count))

    def regroup(self) -> None:
        """Lets the group give all partitions to this member again, in another generation."""
        assert self.dispatcher is not None
        self._in_session = False  # until the next look

    @property
    def dead(self) -> set[str]:
        """The actors whose process has ended by itself."""
        return {name for name, actor in self.actors.items() if actor.died_by_itself}

    def write(self, each: int = 3) -> None:
        """Writes ``each`` records of one key to each partition."""
        self.sent += each
        for tp in IN:
            for _ in range(each):
                self.broker.append("in", FakeRecord(f"k{tp.partition}".encode(), b"x", 1, None), tp.partition)

    def counts(self) -> dict[str, list[int]]:
        """Returns the counts of each key in ``out``, as a reader of committed records sees them."""
        found: dict[str, list[int]] = {}
        for record in self.broker.records("out"):
            name, count = (record.value or b"").decode().split(":")
            assert name == f"name of {(record.key or b'').decode()}"
            found.setdefault((record.key or b"").decode(), []).append(int(count))
        return found

    @property
    def is_done(self) -> bool:
        """True if all records are counted, and committed."""
        counts = self.counts()
        committed = self.broker.group(APPLICATION).offsets
        return all(
            counts.get(f"k{tp.partition}", [0])[-1] >= self.sent
            and tp in committed
            and committed[tp].offset >= self.broker.log(tp).end
            for tp in IN
        )

    @property
    def is_running(self) -> bool:
        """True if the state is RUNNING."""
        return self.dispatcher is not None and self.dispatcher.machine.state is ApplicationState.RUNNING

    @property
    def loops(self) -> list[StreamLoop]:
        """Returns the stream loops of all actors that live."""
        return [it.loop for it in self.actors.values() if it.loop is not None and not it.killed]

    @property
    def is_assigning(self) -> bool:
        """True if an actor that is up has not confirmed its last assignment."""
        actors = self.dispatcher.machine._actors.values() if self.dispatcher is not None else ()
        return any(actor.phase is Phase.UP and not actor.settled for actor in actors)

    def has_task(self, state: TaskState) -> bool:
        """Returns True if a task of an actor that lives is in this state."""
        return any(hosted.state is state for loop in self.loops for hosted in loop._tasks.values())

    async def until(self, condition: Callable[[], bool], what: str, limit_s: float) -> float:
        """Waits until ``condition`` holds; returns the seconds that it took."""
        begun_s = asyncio.get_running_loop().time()
        while not condition():
            assert not self._errors, self._errors
            took_s = asyncio.get_running_loop().time() - begun_s
            assert took_s < limit_s, f"after {took_s:.1f} s it does not hold yet that {what}"
            await asyncio.sleep(0.1)
        return asyncio.get_running_loop().time() - begun_s

    # ---- the coordinator ----

    async def start_coordinator(self) -> None:
        """Begin, or begin again, with the actors that live."""
        self._incarnation += 1
        pausing = Pausing(_keep, QUIET)
        machine = Coordinator(self.plan, 2, 1_000_000 * self._incarnation, self.exactly_once)
        dispatcher = Dispatcher(machine, self, pausing, QUIET)
        if self._incarnation > 1:
            await dispatcher.recover([it for it in self.actors.values() if not it.killed and it.loop is not None])
        self.dispatcher, self._in_session = dispatcher, False
        dispatcher.feed(events.ClusterResized(PARTITIONS))
        dispatcher.feed(events.ActorsWanted(self.wanted))
        self.spawn(self._check_actors(dispatcher))
        self.spawn(self._sit_in_the_group(dispatcher))

    def end_coordinator(self) -> None:
        """Lets the coordinator's process die: open questions are never answered."""
        assert self.dispatcher is not None
        dispatcher, self.dispatcher = self.dispatcher, None
        self._incarnation += 1
        dispatcher.close()

    async def _check_actors(self, dispatcher: Dispatcher) -> None:
        while self.dispatcher is dispatcher:
            await dispatcher.check_actors()
            await asyncio.sleep(AWAY_S if self.broker.down else LOOK_S)

    async def _sit_in_the_group(self, dispatcher: Dispatcher) -> None:
        """Plays the group member: a session ends when it was without an answer for SESSION_S."""
        away_s = 0.0
        while self.dispatcher is dispatcher:
            await asyncio.sleep(LOOK_S)
            if self.dispatcher is not dispatcher:
                return
            away_s = 0.0 if self.broker.answers else away_s + LOOK_S
            if away_s >= SESSION_S and self._in_session:
                self._in_session = False
                dispatcher.feed(events.GroupAssigned(None))
            if not away_s and not self._in_session:
                await asyncio.sleep(REJOIN_S - LOOK_S)
                if self.broker.answers and self.dispatcher is dispatcher:
                    member = self.broker.join(APPLICATION, STATIC_MEMBER, ["in"])
                    self._in_session = True
                    metadata = self.broker.metadata(APPLICATION, STATIC_MEMBER, member)
                    dispatcher.feed(events.GroupAssigned(frozenset(IN), metadata))

    async def call_coordinator(self, request: CommitRequest) -> CommitAnswer | None:
        """Calls ``commit`` as over Ray: while there is no coordinator, calls wait for it. None: no answer in time."""
        while self.dispatcher is None:
            await asyncio.sleep(LOOK_S)
        incarnation = self._incarnation
        try:
            answer = await asyncio.wait_for(self.dispatcher.commit(request), ANSWER_WITHIN_S)
        except TimeoutError:
            return None
        return answer if incarnation == self._incarnation else None

    # ---- the environment of the dispatcher ----

    def create_actor(self, actor_id: str, generation: int, node: str, avoid: frozenset[str]) -> ActorHandle:
        self.actors[actor_id] = LivingActor(self, actor_id)
        return self.actors[actor_id]

    async def commit(self, offsets: Offsets) -> None:
        waited_s = 0.0
        while not self.broker.answers:
            await asyncio.sleep(LOOK_S)
            waited_s += LOOK_S
            if waited_s >= 60:
                raise StreamsError("no answer")
        if not self._in_session:
            raise StreamsError("no session")
        self.broker.group(APPLICATION).offsets.update(
            {tp: CommittedOffset(committed.offset, committed.metadata) for tp, committed in offsets.items()}
        )

    async def fence(self, slot: int) -> None:
        producer = self.clients.transactional_producer(transactional_id(APPLICATION, "", slot))
        await asyncio.wrap_future(producer.init_transactions())

    async def node(self, node_id: str) -> NodeAnswer:
        return NodeAnswer.ANSWERS

    def reported(self, status: ActorStatus) -> None:
        pass

    def decided(self, event: Event, instructions: Sequence[Instruction]) -> None:
        pass

    def rolled_out(self, rollout: Rollout) -> None:
        pass

    def wished(self, wishes: Wishes) -> None:
        pass

    def entered(self, state: ApplicationState, error: str | None) -> None:
        self.states.append(state)


async def _keep(paused: bool) -> None:
    pass
