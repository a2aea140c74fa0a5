"""The Ray actor of the coordinator: what others call, its periodic tasks, its beginning and its end.

What the state machine decides is carried out by :mod:`penstock.cluster.dispatch`. Detached and restartable: after a
restart it asks the living stream actors what they hold and goes on from there. Every method may be called again by Ray
after a restart (``max_task_retries=-1``), so every method is idempotent.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import ray
from ray import cloudpickle

from penstock.actors.messages import (
    ApplicationMetadata,
    ApplicationSpec,
    ApplicationState,
    ApplicationStatus,
    CommitAnswer,
    CommitRequest,
    StoreMetadata,
)
from penstock.cluster import events, final_state, wanted_count
from penstock.cluster.broker_watch import BrokerWatch
from penstock.cluster.coordinator import Coordinator
from penstock.cluster.cpu_watch import CpuWatch
from penstock.cluster.dispatch import Dispatcher
from penstock.cluster.drain_watch import DrainWatch, draining_nodes
from penstock.cluster.membership import Membership
from penstock.cluster.named_actors import find_http_actor
from penstock.cluster.names import seat_id
from penstock.cluster.purger import Purger
from penstock.cluster.ray_cpus import cluster_cpus, cpu_usage, node_labels
from penstock.cluster.ray_environment import RayEnvironment
from penstock.cluster.scaling_watch import ScalingWatch
from penstock.cluster.stream_actor_handle import StreamActorHandle
from penstock.cluster.topic_watch import ONE_AFTER_ANOTHER_S, TopicWatch
from penstock.common.errors import (
    BrokerUnreachableError,
    InternalTopicError,
    KafkaRefusedError,
    StreamsError,
    TopologyError,
)
from penstock.common.ids import TaskId
from penstock.common.log import logger
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.internal_topics import ensure_topics
from penstock.topology.physical.topic_plan import TopicPlan, plan_topics
from penstock.topology.physical.topology import internal_topic, serde_topic

_CHECK_ACTORS_S = 0.5
_CHECK_CLUSTER_S = 5.0
_CHECK_DRAINS_S = 2.0
_CHECK_LOAD_S = 1.0
_CHECK_TOPICS_S = 1.0
_CHECK_BROKER_S = 2.0
_TOPICS = "check source topics"
_BROKER_AGAIN_S = 1.0
_ASK_HTTP_S = 10.0
_NO_SESSION = "the session in the consumer group is lost, no task runs until there is another"


class CoordinatorActor:
    """One per application and Ray cluster. ``spec`` is a pickled :class:`ApplicationSpec`."""

    def __init__(self, application_id: str, *spec: bytes) -> None:
        """``spec``: the pickled application, in pieces."""
        # Nothing here may fail: Ray does not retry a constructor. What can fail happens in the task.
        self._application_id = application_id
        self._spec_bytes = b"".join(spec)
        self._spec: ApplicationSpec | None = None
        self._log = logger(__name__).bind(application=application_id)
        self._loop = asyncio.get_running_loop()
        self._dispatcher: Dispatcher | None = None
        self._membership: Membership | None = None
        self._scaling: ScalingWatch | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._state = ApplicationState.CREATED
        self._error: str | None = None
        self._waiting: str | None = None
        self._broker_watch: BrokerWatch | None = None
        self._http_address: str | None = None
        self._cpu_watch = CpuWatch(application_id, cpu_usage, self._loop.time)
        self._ended = asyncio.Event()
        self._beginning = self._spawn(self._begin())

    # ---- what others call ----

    async def ready(self) -> None:
        """Returns as soon as the actor exists."""

    async def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()

    async def key_serdes(self, store: str, source_topic: str) -> bytes:
        """The pickled serdes (None: there is none) of the keys of a store and of a topic that its sub-topology reads,
        to be bound by who reads: a bound one may hold what does not travel; and the form of the store's rows. Alone:
        the whole program can only be unpickled where all of its code is, and a reader need not have it."""
        assert self._spec is not None  # the first step of _begin
        topology, default = self._spec.topology, self._spec.config.default_key_serde
        produced = default
        for source in (source for sub in topology.every_subtopology for source in sub.sources):
            names = [internal_topic(self._application_id, name) if source.internal else name for name in source.topics]
            if source_topic in names or (source.pattern is not None and source.pattern.fullmatch(source_topic)):
                produced = source.key_serde or default
        builder = topology.store_builders[store]
        serdes = builder.key_serde or default, produced, builder.entries
        pickled: bytes = cloudpickle.dumps(serdes)  # type: ignore[no-untyped-call]  # untyped in Ray
        return pickled

    async def status(self) -> ApplicationStatus:
        """State, actors as last seen, placement."""
        it = self._dispatcher
        return ApplicationStatus(
            self._application_id,
            self._state,
            it.machine.epoch if it else 0,
            it.statuses if it else (),
            it.machine.placement if it else {},
            self._http_address,
            self._error,
            None if self._state.has_ended else self._waits_for(),
            self._scaling.status if self._scaling is not None else None,
        )

    def _waits_for(self) -> str | None:
        no_session = self._dispatcher is not None and self._dispatcher.machine.session_lost
        reasons = [self._no_broker(), _NO_SESSION if no_session else None, self._waiting]
        return "; ".join(reason for reason in reasons if reason is not None) or None

    def _no_broker(self) -> str | None:
        return self._broker_watch.reason if self._broker_watch is not None else None

    async def metadata(self) -> ApplicationMetadata:
        """Where each store's keys live."""
        if self._dispatcher is None or self._spec is None:
            return ApplicationMetadata(self._application_id, 0, {}, {}, {})
        machine, handles = self._dispatcher.machine, self._dispatcher.handles
        plans = {plan.id: plan for plan in machine.plan.subtopologies}
        stores = {
            store.name: StoreMetadata(
                store.name,
                store.kind,
                sub.id,
                plans[sub.id].tasks,
                serde_topic(self._application_id, store),
                plans[sub.id].widest_topic,
            )
            for sub in self._spec.topology.subtopologies
            for store in sub.stores
        }
        placement = machine.placement
        for sub in self._spec.topology.global_subtopologies:
            (topic,) = sub.sources[0].topics
            stores |= {
                store.name: StoreMetadata(store.name, store.kind, sub.id, 1, topic, topic) for store in sub.stores
            }
            if placement:  # every actor has all of it
                placement[TaskId(sub.id, 0)] = min(placement.values())
        actors = {name: handles[name].ray_handle for name in set(placement.values()) if name in handles}
        return ApplicationMetadata(self._application_id, machine.epoch, stores, placement, actors)

    async def commit(self, request: CommitRequest) -> CommitAnswer:
        """Commit offsets for an actor, fenced by its assignment; returns when Kafka has them, or with the refusal."""
        # After a restart the actors' commits arrive before the machine stands again.
        await asyncio.wait({self._beginning})
        if self._dispatcher is None:
            return CommitAnswer(False, self._error or "the application has ended")
        return await self._dispatcher.commit(request)

    async def stop(self) -> ApplicationStatus:
        """Drain, commit and end every stream actor; returns when that is done (or when the application had ended)."""
        if ray.get_runtime_context().was_current_actor_reconstructed:
            await asyncio.wait({self._beginning})  # the actors that live must be known before they can be drained
        if self._dispatcher is not None:
            self._dispatcher.feed(events.StopRequested())
        elif not self._state.has_ended:
            self._beginning.cancel()
            self._enter(ApplicationState.NOT_RUNNING, None)
        await self._ended.wait()
        return await self.status()

    async def change_stream_actors(self, by: int, call: str) -> str | None:
        """Add a stream actor or remove one: :meth:`~penstock.cluster.scaling_watch.ScalingWatch.change`."""
        await asyncio.wait({self._beginning})
        return await self._scaling.change(by, call) if self._scaling is not None else None

    async def set_stream_actors(self, count: int) -> str | None:
        """So many from now on; why not, if that is refused."""
        await asyncio.wait({self._beginning})
        return await self._scaling.become(count) if self._scaling is not None else "it has no actors"

    async def set_http_address(self, address: str | None) -> None:
        """Remember where the HTTP API listens, for those who ask the status."""
        self._http_address = address

    # ---- beginning and end ----

    async def _begin(self) -> None:
        try:
            spec: ApplicationSpec = cloudpickle.loads(self._spec_bytes)
            self._spec = spec
            if await self._has_ended():
                return
            clients = ConfluentClients.of(spec.config)
            self._broker_watch = BrokerWatch(
                self._application_id, spec.config.bootstrap_servers, clients.admin, time.time
            )
            self._repeat(_CHECK_BROKER_S, "ask the broker", partial(asyncio.to_thread, self._broker_watch.check))
            plan = await self._plan(spec, clients)
        except (StreamsError, ImportError, AttributeError) as error:
            self._log.error("the application cannot start", error=str(error))
            # Those of an earlier incarnation would work on with nobody to watch them, or to commit for them.
            for handle in await asyncio.to_thread(StreamActorHandle.find, self._application_id):
                handle.kill()
            self._enter(ApplicationState.ERROR, f"{type(error).__name__}: {error}")
            return
        purger = Purger(plan.tasks.repartition_topics, clients.admin)
        # Above every epoch that an earlier incarnation gave out, as it gave out fewer than one per millisecond.
        exactly_once = spec.config.processing_guarantee == "exactly_once_v2"
        machine = Coordinator(plan.tasks, spec.config.tasks_per_actor, time.time_ns() // 1_000_000, exactly_once)
        environment = RayEnvironment(self._spec_bytes, clients, purger, lambda: self._membership, self._enter)
        dispatcher = Dispatcher(machine, environment, self._log)
        self._dispatcher = dispatcher
        await self._recover(dispatcher)
        self._membership = Membership(
            lambda: clients.group_member(seat_id(self._application_id)),
            plan.tasks.topics,
            lambda partitions, metadata: self._from_thread(events.GroupAssigned(partitions, metadata)),
            lambda error: self._from_thread(events.ApplicationFailed(f"{type(error).__name__}: {error}")),
        )
        await self._scale(spec, dispatcher)
        drains = DrainWatch(self._application_id, draining_nodes, lambda: time.time() * 1000)
        watch = TopicWatch(spec.topology, spec.config, clients.admin, self._loop.time)
        self._repeat(_CHECK_ACTORS_S, "check actors", dispatcher.check_actors)
        self._repeat(_CHECK_CLUSTER_S, "check the Ray cluster", self._check_cluster)
        self._repeat(_CHECK_DRAINS_S, "check for drained nodes", lambda: self._check_drains(drains))
        self._repeat(_CHECK_TOPICS_S, _TOPICS, lambda: self._check_topics(watch))
        self._repeat(spec.config.repartition_purge_interval_ms / 1000, "purge repartition topics", purger.purge)

    async def _scale(self, spec: ApplicationSpec, dispatcher: Dispatcher) -> None:
        actor_id = str(ray.get_runtime_context().get_actor_id())
        kept = await asyncio.to_thread(wanted_count.load, actor_id)
        save, clock = partial(wanted_count.save, actor_id), self._loop.time
        self._scaling = ScalingWatch(spec.config, dispatcher, kept, save, clock, self._log)
        self._repeat(_CHECK_LOAD_S, "look at the load", self._scaling.look)

    async def _has_ended(self) -> bool:
        """After a restart, whether the application had ended before: then only its status is served."""
        context = ray.get_runtime_context()
        if not context.was_current_actor_reconstructed:
            return False
        ended = await asyncio.to_thread(final_state.load, str(context.get_actor_id()))
        if ended is None:
            return False
        self._http_address = await self._ask_http()
        self._enter(*ended)
        return True

    async def _plan(self, spec: ApplicationSpec, clients: ConfluentClients) -> TopicPlan:
        # Its actors may work while topics get partitions one after another, as if there had been no restart.
        restarted = ray.get_runtime_context().was_current_actor_reconstructed
        patient_until = self._loop.time() + (ONE_AFTER_ANOTHER_S if restarted else 0.0)
        planned = partial(plan_topics, spec.topology, spec.config)
        while True:
            try:
                return await asyncio.to_thread(lambda: ensure_topics(clients.admin(), planned))
            except BrokerUnreachableError as error:
                self._log.warning("waiting for the broker", error=str(error))
            except TopologyError as error:
                if self._loop.time() >= patient_until:
                    raise
                self._log.warning("waiting for joined topics to gain partitions", error=str(error))
            await asyncio.sleep(_BROKER_AGAIN_S)

    async def _recover(self, dispatcher: Dispatcher) -> None:
        """After a restart go on with the actors that live; otherwise end them: they ran another program."""
        found = await asyncio.to_thread(StreamActorHandle.find, self._application_id)
        if ray.get_runtime_context().was_current_actor_reconstructed:
            await dispatcher.recover(found)
            self._http_address = await self._ask_http()
        else:
            for handle in found:
                handle.kill()

    async def _ask_http(self) -> str | None:
        try:
            handle = find_http_actor(self._application_id)
            if handle is None:
                return None
            asked: asyncio.Future[str | None] = asyncio.wrap_future(handle.known_address.remote().future())
            return await asyncio.wait_for(asked, _ASK_HTTP_S)
        except Exception as error:  # the address is only shown, and the server sends it again when it restarts
            self._log.warning("HTTP server address unavailable", error=repr(error))
            return None

    def _enter(self, state: ApplicationState, error: str | None) -> None:
        self._log.info(
            "application state changed", old=self._state.value, new=state.value, **({"error": error} if error else {})
        )
        self._state, self._error = state, error
        if state.has_ended:
            self._spawn(self._end())

    async def _end(self) -> None:
        try:
            actor_id = str(ray.get_runtime_context().get_actor_id())
            await asyncio.to_thread(final_state.save, actor_id, self._state, self._error)
        except Exception as error:  # whatever Ray has: the end itself must go on
            self._log.error("cannot save the final state", exc_info=error)
        if self._membership is not None:
            await asyncio.to_thread(self._membership.close)
        if self._dispatcher is not None:
            self._dispatcher.close()
        for task in self._tasks - {asyncio.current_task()}:
            task.cancel()
        self._ended.set()

    # ---- periodic tasks ----

    def _repeat(self, interval_s: float, what: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def run() -> None:
            while True:
                try:
                    await work()
                except Exception as error:  # the next time may be better, and nothing else must end with it
                    self._log.error("periodic task failed, retrying", task=what, exc_info=error)
                await asyncio.sleep(interval_s)

        self._spawn(run())

    async def _check_cluster(self) -> None:
        assert self._dispatcher is not None
        cpus, labels = await asyncio.to_thread(lambda: (cluster_cpus(), node_labels()))
        if self._scaling is not None:
            await self._scaling.cluster_has(cpus)
        self._dispatcher.feed(events.ClusterResized(cpus, labels))
        self._waiting = await asyncio.to_thread(self._cpu_watch.check, self._dispatcher.machine.starting)

    async def _check_drains(self, watch: DrainWatch) -> None:
        assert self._dispatcher is not None
        if (draining := await asyncio.to_thread(watch.check)) is not None:
            self._dispatcher.feed(draining)

    async def _check_topics(self, watch: TopicWatch) -> None:
        assert self._dispatcher is not None
        machine = self._dispatcher.machine
        if not watch.due(bool(machine.unplanned)):
            return
        try:
            plan = await asyncio.to_thread(watch.check, machine.plan)
        except (InternalTopicError, TopologyError) as error:
            self._dispatcher.feed(events.ApplicationFailed(f"{type(error).__name__}: {error}"))
        except StreamsError as error:
            if isinstance(error, BrokerUnreachableError | KafkaRefusedError) and self._no_broker() is not None:
                return  # that is told already, once
            self._log.warning("periodic task failed, retrying", task=_TOPICS, error=str(error))
        else:
            if plan is not None:
                self._log.info("source topics gained partitions", tasks=len(plan.partitions))
                if self._membership is not None:
                    self._membership.subscribe(plan.topics)
                self._dispatcher.feed(events.TasksPlanned(plan))

    # ---- tasks and threads ----

    def _from_thread(self, event: events.Event) -> None:
        assert self._dispatcher is not None
        self._loop.call_soon_threadsafe(self._dispatcher.feed, event)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("internal error in the coordinator", exc_info=error)
            what = f"internal error in the coordinator: {error!r}"
            if self._dispatcher is not None:
                self._dispatcher.feed(events.ApplicationFailed(what))
            elif not self._state.has_ended:
                self._enter(ApplicationState.ERROR, what)
