"""The Ray shell of the coordinator: it feeds the state machine and does what the machine says.

Detached and restartable: after a restart it asks the living stream actors what they hold and goes on from there. Every
method may be called again by Ray after a restart (``max_task_retries=-1``), so every method is idempotent.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from typing import Any

import ray
from ray import cloudpickle

from penstock.actors.messages import (
    ActorStatus,
    ApplicationMetadata,
    ApplicationSpec,
    ApplicationState,
    ApplicationStatus,
    CommitAnswer,
    CommitRequest,
    StoreMetadata,
    TaskState,
)
from penstock.cluster import events
from penstock.cluster.coordinator import Coordinator
from penstock.cluster.membership import Membership
from penstock.cluster.names import NAMESPACE, coordinator_name, http_actor_name
from penstock.cluster.purger import Purger
from penstock.cluster.stream_actors import StreamActorFailedError, StreamActorHandle, StreamActorLostError
from penstock.common.errors import BrokerUnreachableError, StreamsError
from penstock.common.ids import CommittedOffset
from penstock.common.log import logger
from penstock.kafka.clients import ConfluentClients
from penstock.topology.internal_topics import TopicPlan, ensure_topics
from penstock.topology.task_plan import TaskPlan

_LOOK_AT_ACTORS_S = 0.5
_LOOK_AT_CLUSTER_S = 5.0
_BROKER_AGAIN_S = 1.0
_COMMIT_AGAIN_S = 0.5
_HUNG_S = 300.0
"""An actor that answers nothing for so long is replaced (Kafka Streams: ``max.poll.interval.ms``)."""
_ENDED = (ApplicationState.NOT_RUNNING, ApplicationState.ERROR)


class CoordinatorActor:
    """One per application and Ray cluster. ``spec`` is a pickled :class:`ApplicationSpec`."""

    def __init__(self, application_id: str, spec: bytes) -> None:
        # Nothing here may fail: Ray does not retry a constructor. What can fail happens in the task.
        self._application_id = application_id
        self._spec_bytes = spec
        self._spec: ApplicationSpec | None = None
        self._log = logger("penstock.cluster.coordinator").bind(application=application_id)
        self._loop = asyncio.get_running_loop()
        self._machine: Coordinator | None = None
        self._membership: Membership | None = None
        self._purger: Purger | None = None
        self._handles: dict[str, StreamActorHandle] = {}
        self._statuses: dict[str, ActorStatus] = {}
        self._last_seen: dict[str, float] = {}
        self._timers: dict[events.Timer, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._state = ApplicationState.CREATED
        self._error: str | None = None
        self._http_address: str | None = None
        self._ended = asyncio.Event()
        self._beginning = self._spawn(self._begin())

    # ---- what others call ----

    async def ready(self) -> None:
        """Returns as soon as the actor exists."""

    async def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()

    async def key_serde(self, store: str) -> bytes:
        """The pickled serde of a store's keys (None: it has none). Alone: the whole program can only be unpickled where
        all of its code is, and a reader need not have it."""
        assert self._spec is not None  # the first step of _begin
        serde = self._spec.topology.store_builders[store].key_serde or self._spec.config.default_key_serde
        pickled: bytes = cloudpickle.dumps(serde)  # type: ignore[no-untyped-call]  # untyped in Ray
        return pickled

    async def status(self) -> ApplicationStatus:
        """State, actors as last seen, placement."""
        actors = tuple(self._statuses[name] for name in sorted(self._statuses) if name in self._handles)
        placement = self._machine.placement if self._machine else {}
        epoch = self._machine.epoch if self._machine else 0
        return ApplicationStatus(
            self._application_id, self._state, epoch, actors, placement, self._http_address, self._error
        )

    async def metadata(self) -> ApplicationMetadata:
        """Where each store's keys live."""
        if self._machine is None or self._spec is None or self._purger is None:
            return ApplicationMetadata(self._application_id, 0, {}, {}, {})
        tasks = {sub.id: sub.tasks for sub in self._purger.plan.subtopologies}
        stores = {
            store.name: StoreMetadata(store.name, store.kind.value, sub.id, tasks[sub.id])
            for sub in self._spec.topology.subtopologies
            for store in sub.stores
        }
        placement = self._machine.placement
        actors = {name: self._handles[name].ray_handle for name in set(placement.values()) if name in self._handles}
        return ApplicationMetadata(self._application_id, self._machine.epoch, stores, placement, actors)

    async def commit(self, request: CommitRequest) -> CommitAnswer:
        """Commit offsets for an actor, fenced by its assignment; returns when Kafka has them, or with the refusal."""
        offsets = {partition: CommittedOffset(*position) for partition, position in request.offsets.items()}
        # After a restart the actors' commits arrive before the machine stands again.
        await asyncio.wait({self._beginning})
        while True:
            if self._machine is None or self._membership is None or self._purger is None:
                return CommitAnswer(False, self._error or "the application has ended")
            for instruction in self._machine.handle(events.CommitRequested(request)):
                if isinstance(instruction, events.RefuseCommit):
                    self._log.warning("commit refused", actor=request.actor_id, reason=instruction.reason)
                    return CommitAnswer(False, instruction.reason)
            try:
                await asyncio.wrap_future(self._membership.commit(offsets))
            except StreamsError as error:
                if self._ended.is_set():
                    return CommitAnswer(False, str(error))
                # A rebalance passes, a broker comes back; whether the actor still may is asked again.
                self._log.warning("commit to be repeated", actor=request.actor_id, error=str(error))
                await asyncio.sleep(_COMMIT_AGAIN_S)
            else:
                self._purger.committed(offsets)
                return CommitAnswer(True)

    async def stop(self) -> ApplicationStatus:
        """Drain, commit and end every stream actor; returns when that is done (or when the application had ended)."""
        if ray.get_runtime_context().was_current_actor_reconstructed:
            await asyncio.wait({self._beginning})  # the actors that live must be known before they can be drained
        if self._machine is not None:
            self._feed(events.StopRequested())
        elif self._state not in _ENDED:
            self._beginning.cancel()
            self._enter(ApplicationState.NOT_RUNNING, None)
        await self._ended.wait()
        return await self.status()

    async def set_http_address(self, address: str | None) -> None:
        """Remember where the HTTP API listens, for those who ask the status."""
        self._http_address = address

    # ---- beginning and end ----

    async def _begin(self) -> None:
        try:
            self._spec = cloudpickle.loads(self._spec_bytes)
            clients = ConfluentClients.of(self._spec.config)
            plan = await self._plan(self._spec, clients)
            self._purger = Purger(plan.tasks, clients.admin)
            await self._recover(plan.tasks)
        except (StreamsError, ImportError, AttributeError) as error:
            self._log.error("the application cannot start", error=str(error))
            self._enter(ApplicationState.ERROR, f"{type(error).__name__}: {error}")
            return
        self._membership = Membership(
            lambda: clients.group_member(f"{self._application_id}-coordinator"),
            plan.tasks.topics,
            lambda partitions: self._from_thread(events.GroupAssigned(partitions)),
            lambda error: self._from_thread(events.ApplicationFailed(str(error))),
        )
        self._spawn(self._each(_LOOK_AT_ACTORS_S, self._look_at_actors))
        self._spawn(self._each(_LOOK_AT_CLUSTER_S, self._look_at_cluster))
        self._spawn(self._each(self._spec.config.repartition_purge_interval_ms / 1000, self._purger.purge))

    async def _plan(self, spec: ApplicationSpec, clients: ConfluentClients) -> TopicPlan:
        while True:
            try:
                return await asyncio.to_thread(lambda: ensure_topics(spec.topology, spec.config, clients.admin()))
            except BrokerUnreachableError as error:
                self._log.warning("waiting for the broker", error=str(error))
                await asyncio.sleep(_BROKER_AGAIN_S)

    async def _recover(self, plan: TaskPlan) -> None:
        """Make the machine; after a restart with the actors that live, otherwise without: they ran another program."""
        assert self._spec is not None
        found = await asyncio.to_thread(StreamActorHandle.find, self._application_id)
        # Above every epoch that an earlier incarnation gave out, as it gave out fewer than one per millisecond.
        machine = Coordinator(plan, self._spec.config.tasks_per_actor, time.time_ns() // 1_000_000)
        self._machine = machine
        restarted = ray.get_runtime_context().was_current_actor_reconstructed
        for handle in found:
            status = await self._status_of(handle) if restarted else None
            if status is None:
                handle.kill()
            else:
                self._adopt(handle, status)
        if restarted:
            self._http_address = await self._ask_http()

    def _adopt(self, handle: StreamActorHandle, status: ActorStatus) -> None:
        self._log.info("actor found alive", actor=handle.actor_id, tasks=[str(task.task_id) for task in status.tasks])
        self._handles[handle.actor_id] = handle
        held = frozenset(task.task_id for task in status.tasks if task.state is not TaskState.CLOSED)
        self._feed(events.ActorRecovered(handle.actor_id, status.epoch, held))
        self._spawn(self._watch(handle))

    async def _ask_http(self) -> str | None:
        try:
            handle = ray.get_actor(http_actor_name(self._application_id), namespace=NAMESPACE)
        except ValueError:
            return None
        address: str | None = await handle.known_address.remote()
        return address

    def _enter(self, state: ApplicationState, error: str | None) -> None:
        self._log.info("state", was=self._state.value, now=state.value, **({"error": error} if error else {}))
        self._state, self._error = state, error
        if state in _ENDED:
            self._spawn(self._end())

    async def _end(self) -> None:
        if self._membership is not None:
            await asyncio.to_thread(self._membership.close)
        for task in self._tasks - {asyncio.current_task()}:
            task.cancel()
        for timer in self._timers.values():
            timer.cancel()
        self._ended.set()

    # ---- the machine's instructions ----

    def _feed(self, event: events.Event) -> None:
        if self._machine is not None:
            for instruction in self._machine.handle(event):
                self._obey(instruction)

    def _from_thread(self, event: events.Event) -> None:
        self._loop.call_soon_threadsafe(self._feed, event)

    def _obey(self, instruction: events.Instruction) -> None:
        match instruction:
            case events.StartActor(name):
                self._create(name)
            case events.AssignTasks(name, epoch, tasks):
                self._log.info("assigning", actor=name, epoch=epoch, tasks=sorted(map(str, tasks)))
                self._spawn(self._tell(name, lambda it: it.assign(epoch, tasks), events.ActorAssigned(name, epoch)))
            case events.StopActor(name):
                self._log.info("stopping actor", actor=name)
                self._spawn(self._tell(name, lambda it: it.stop(), events.ActorStopped(name)))
            case events.KillActor(name):
                self._log.info("ending actor", actor=name)
                if (killed := self._handles.pop(name, None)) is not None:
                    killed.kill()
            case events.SetTimer(timer, delay_ms):
                if timer in self._timers:
                    self._timers[timer].cancel()
                self._timers[timer] = self._loop.call_later(delay_ms / 1000, self._feed, events.TimerFired(timer))
            case events.SetState(state, error):
                self._enter(state, error)

    def _create(self, name: str) -> None:
        self._log.info("starting actor", actor=name)
        try:
            handle = StreamActorHandle.create(self._application_id, name, self._spec_bytes)
        except ValueError as error:
            # Ray has not yet let go of the name of one that died before our restart: the next has another number.
            self._log.warning("actor not created", actor=name, error=str(error))
            self._loop.call_soon(self._feed, events.ActorLost(name, str(error)))
            return
        self._handles[name] = handle
        self._spawn(self._start(handle))

    async def _start(self, handle: StreamActorHandle) -> None:
        me = ray.get_actor(coordinator_name(self._application_id), namespace=NAMESPACE)
        await self._tell(handle.actor_id, lambda it: it.start(me), events.ActorUp(handle.actor_id))
        if handle.actor_id in self._handles:
            await self._watch(handle)

    async def _watch(self, handle: StreamActorHandle) -> None:
        """Notice the end of the actor's loop, or of its process."""
        error: str | None = None

        async def ends(it: StreamActorHandle) -> None:
            nonlocal error
            error = await it.wait()

        await self._tell(handle.actor_id, ends, None)
        if error is not None:
            self._feed(events.ActorFailed(handle.actor_id, error))

    async def _tell(
        self,
        name: str,
        call: Callable[[StreamActorHandle], Coroutine[Any, Any, None]],
        success: events.Event | None,
    ) -> None:
        """Make one call to an actor and feed what came of it."""
        handle = self._handles.get(name)
        if handle is None:
            return
        try:
            await call(handle)
        except StreamActorLostError as error:
            if self._handles.pop(name, None) is not None:
                self._log.warning("actor lost", actor=name, reason=str(error))
            self._feed(events.ActorLost(name, str(error)))
        except StreamActorFailedError as error:
            self._feed(events.ActorFailed(name, str(error)))
        else:
            if isinstance(success, events.ActorStopped):
                self._handles.pop(name, None)
            if success is not None:
                self._feed(success)

    # ---- what is looked at from time to time ----

    async def _each(self, interval_s: float, look: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            await look()
            await asyncio.sleep(interval_s)

    async def _look_at_actors(self) -> None:
        handles = [handle for name, handle in self._handles.items() if name in self._statuses or self._is_up(name)]
        for handle, status in zip(handles, await asyncio.gather(*map(self._status_of, handles)), strict=True):
            now = self._loop.time()
            if status is None:
                if now - self._last_seen.setdefault(handle.actor_id, now) > _HUNG_S:
                    self._log.error("the actor does not answer and is ended", actor=handle.actor_id)
                    handle.kill()
                continue
            self._last_seen[handle.actor_id] = now
            self._statuses[handle.actor_id] = status
            running = frozenset(task.task_id for task in status.tasks if task.state is TaskState.RUNNING)
            self._feed(events.ActorReported(handle.actor_id, running))
        for name in self._statuses.keys() - self._handles.keys():
            del self._statuses[name]

    def _is_up(self, name: str) -> bool:
        return self._machine is not None and self._machine.is_up(name)

    async def _status_of(self, handle: StreamActorHandle) -> ActorStatus | None:
        try:
            return await handle.status()
        except (StreamActorLostError, StreamActorFailedError):
            return None  # its watcher tells the machine

    async def _look_at_cluster(self) -> None:
        resources = await asyncio.to_thread(ray.cluster_resources)
        self._feed(events.ClusterResized(int(resources.get("CPU", 0))))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("a duty of the coordinator failed", exc_info=error)
            what = f"internal error in the coordinator: {error!r}"
            if self._machine is not None:
                self._feed(events.ApplicationFailed(what))
            elif self._state not in _ENDED:
                self._enter(ApplicationState.ERROR, what)
