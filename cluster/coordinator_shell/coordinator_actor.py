"""The Ray actor of the coordinator: what others call, its periodic tasks, its beginning and its end.

:mod:`penstock.cluster.coordinator_shell.dispatch` carries out what the state machine decides. Detached and
restartable: after a restart it asks the living stream actors what they hold and continues from there. Every method may
be called again by Ray after a restart (``max_task_retries=-1``), so every method is idempotent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from penstock.actors.commit_messages import CommitAnswer, CommitRequest
from penstock.actors.failure import UncaughtErrors
from penstock.actors.process.process_id import process_id
from penstock.actors.process.process_watch import LOOK_EVERY_S, Process, own_process
from penstock.actors.spec import ApplicationSpec
from penstock.cluster import events
from penstock.cluster.coordinator.coordinator import Coordinator
from penstock.cluster.coordinator_shell import final_state
from penstock.cluster.coordinator_shell.background_tasks import BackgroundTasks
from penstock.cluster.coordinator_shell.deployments import Deployments
from penstock.cluster.coordinator_shell.dispatch import Dispatcher
from penstock.cluster.coordinator_shell.first_plan import first_plan
from penstock.cluster.coordinator_shell.known_http import KnownHttp
from penstock.cluster.coordinator_shell.leaving import leave_group
from penstock.cluster.coordinator_shell.membership import Membership
from penstock.cluster.coordinator_shell.pausing import Pausing
from penstock.cluster.coordinator_shell.periodic_work import PeriodicWork, Work, repeat
from penstock.cluster.coordinator_shell.program_calls import ProgramCalls
from penstock.cluster.coordinator_shell.ray_environment import RayEnvironment
from penstock.cluster.coordinator_shell.ray_metrics import PUBLISH_EVERY_S, RayMetrics
from penstock.cluster.coordinator_shell.status_calls import StatusCalls
from penstock.cluster.coordinator_shell.stream_actor_handle import StreamActorHandle
from penstock.cluster.coordinator_shell.user_calls import UserCalls
from penstock.cluster.coordinator_shell.user_operations import UserOperations
from penstock.cluster.history.history import History
from penstock.cluster.names import static_member_id
from penstock.cluster.placement.standby_assignor import standby_policy
from penstock.cluster.ray_cluster.own_actor import own_id, was_restarted
from penstock.cluster.ray_cluster.running_lock import RunningLock, ray_cluster_in_words
from penstock.cluster.scaling import wanted_count
from penstock.cluster.scaling.scaling_watch import ScalingWatch
from penstock.cluster.status import ApplicationState, ApplicationStatus
from penstock.cluster.watchers.broker_watch import BrokerWatch
from penstock.common.errors import StreamsError
from penstock.common.log import identify, logger, use_format
from penstock.common.within import within
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.internal_topics.purger import Purger
from penstock.kafka.internal_topics.topic_note import TopicNote
from penstock.kafka.settings import SESSION_TIMEOUT_MS, session_timeout_ms
from penstock.topology.physical.topic_plan import TopicPlan

ANSWER_WITHIN_S = 20.0
_BELONGING_S = 5.0
_CHECK_BROKER_S = 2.0
_LEAVE_S = 30.0
_LOCK_AGAIN_S = 5.0
_LOOK_AT_CLOCK_S = 1.0
_LOOK_AT_NOTE_S = 5.0


class CoordinatorActor(ProgramCalls, StatusCalls, UserCalls):
    """One per application and Ray cluster. ``spec`` is a pickled :class:`ApplicationSpec`."""

    def __init__(self, application_id: str, *spec: bytes) -> None:
        """``spec``: the pickled application, in pieces."""
        # Nothing here may fail, because Ray does not retry a constructor: all that can fail is in the task.
        identify(application_id, "coordinator")
        self._application_id = application_id
        self._spec: ApplicationSpec | None = None
        self._log = logger(__name__)
        self._deployments = Deployments(b"".join(spec), own_id, self._spawn, self._log)
        self._operations = UserOperations(own_id, self._spawn, self._log)
        self._loop = asyncio.get_running_loop()
        self._dispatcher: Dispatcher | None = None
        self._membership: Membership | None = None
        self._scaling: ScalingWatch | None = None
        self._history: History | None = None
        self._periodic: PeriodicWork | None = None
        self._background = BackgroundTasks(self._loop, self._internal_error)
        self._state = ApplicationState.CREATED
        self._restarted = False
        self._error: str | None = None
        self._broker_watch: BrokerWatch | None = None
        self._http = KnownHttp(application_id)
        self._running_lock: RunningLock | None = None
        self._ray_metrics = RayMetrics()
        self._pausing = Pausing(final_state.keep_paused, self._log)
        self._uncaught: UncaughtErrors | None = None
        self._leaves = False
        self._leaving: asyncio.Task[str | None] | None = None
        self._ended = asyncio.Event()
        self._beginning = self._spawn(self._begin())

    # ---- what others call ----

    async def ready(self) -> None:
        """Returns as soon as the actor exists."""

    async def process(self) -> Process:
        """Returns its process: stream actors ask now and then, and end the process if it does not respond."""
        return own_process()

    async def has_actor(self, actor_id: str) -> bool:
        """True if the stream actor is part of the application; asked by the actor itself, which ends if it is not."""
        if not (await asyncio.wait({self._beginning}, timeout=_BELONGING_S))[0]:
            return True  # not known yet; calls that wait here would take the places of all others
        return self._dispatcher is not None and actor_id in self._dispatcher.handles

    async def ask_program(self, question: Callable[[ApplicationSpec], object]) -> object:
        """Returns the answer of a function of penstock about the program that runs."""
        assert self._spec is not None  # the first step of _begin
        return await asyncio.to_thread(question, self._deployments.spec)

    async def describe(self) -> str:
        """Returns the topology that it runs; empty while that is not known."""
        return self._deployments.spec.topology.describe() if self._spec is not None else ""

    async def commit(self, request: CommitRequest) -> CommitAnswer | None:
        """Commit offsets for an actor, fenced by its assignment; returns when Kafka has them, or with the refusal.
        Returns None if neither is known within ANSWER_WITHIN_S: the actor asks again. So calls do not pile up here
        while no broker answers."""
        try:
            return await within(ANSWER_WITHIN_S, self._answer_to(request))
        except TimeoutError:
            return None

    async def _answer_to(self, request: CommitRequest) -> CommitAnswer:
        # After a restart the actors' commits arrive before the machine is there again.
        await asyncio.wait({self._beginning})
        if self._dispatcher is None:
            return CommitAnswer(False, self._error or "the application has ended")
        return await self._dispatcher.commit(request)

    async def stop(self, leave: bool = False) -> ApplicationStatus:
        """Drain, commit and end every stream actor; returns when that is done (or when the application had ended).
        ``leave``: the caller then asks it to leave the group."""
        self._leaves = self._leaves or leave
        if was_restarted():
            await asyncio.wait({self._beginning})  # the actors that live must be known before they can be drained
        if self._dispatcher is not None:
            self._dispatcher.feed(events.StopRequested())
        elif not self._state.has_ended:
            self._beginning.cancel()
            self._enter(ApplicationState.NOT_RUNNING, None)
        await self._ended.wait()
        return await self.status()

    async def leave_group(self) -> str | None:
        """Leave the consumer group, after the end; returns the reason if that fails."""
        await self._ended.wait()
        if self._leaving is None:
            leaving = asyncio.to_thread(leave_group, self._deployments.spec.config, _LEAVE_S)
            self._leaving = self._loop.create_task(leaving)
        return await self._leaving

    async def has_left(self) -> None:
        """Returns at once, unless another process has stopped the application and wants it to leave the group: then it
        returns when that is done."""
        if self._leaves:
            await self.leave_group()

    async def pause(self, paused: bool) -> ApplicationStatus:
        """Pause or resume all tasks; returns when every stream actor that answers has the order, and does nothing
        to an application that has ended."""
        if not self._state.has_ended:
            await self._pausing.become(paused, lambda: self._dispatcher.up if self._dispatcher is not None else ())
        return await self.status()

    async def set_http_address(self, address: str | None) -> None:
        """Remember the address of the HTTP API, which the status shows."""
        self._http.address = address

    # ---- beginning and end ----

    async def _begin(self) -> None:
        try:
            restarted = await asyncio.to_thread(was_restarted)
            spec = self._spec = await self._deployments.load(restarted)
            use_format(spec.config.log_format)
            self._log = logger(__name__)
            self._uncaught = UncaughtErrors(spec.uncaught_exception_handler, self._log)
            if await self._has_ended():
                return
            if restarted:
                self._state, self._restarted = ApplicationState.REBALANCING, True
                await self._operations.load()
            kept = await asyncio.to_thread(final_state.load_paused, own_id())
            self._pausing.begin(spec.paused if kept is None else kept)
            clients = ConfluentClients.of(spec.config)
            self._broker_watch = BrokerWatch(
                self._application_id, spec.config.bootstrap_servers, clients.admin, time.time
            )
            self._repeat(Work(_CHECK_BROKER_S, "ask the broker", partial(asyncio.to_thread, self._broker_watch.check)))
            await self._lock_out_others(spec, restarted)
            plan = await first_plan(spec, clients, restarted, self._log)
        except (StreamsError, ImportError, AttributeError) as error:
            # Actors of an earlier incarnation would continue, and nothing would watch them or commit for them.
            for handle in await asyncio.to_thread(StreamActorHandle.find, self._application_id):
                handle.kill()
            failed = await asyncio.to_thread(self._failed_by, error)
            self._enter(ApplicationState.ERROR, failed.error)
            return
        await self._work_by(plan, spec, clients)

    async def _lock_out_others(self, spec: ApplicationSpec, restarted: bool) -> None:
        lock = self._running_lock = RunningLock(spec.config.state_dir / self._application_id, ray_cluster_in_words())
        if restarted or spec.take_over:  # a restart continues what runs: its former process may take a while to end
            self._repeat(Work(_LOCK_AGAIN_S, "lock out a second start", partial(asyncio.to_thread, lock.try_again)))
        else:
            await asyncio.to_thread(lock.take)

    async def _work_by(self, plan: TopicPlan, spec: ApplicationSpec, clients: ConfluentClients) -> None:
        who = await asyncio.to_thread(process_id, self._application_id, spec.config.state_dir)
        purger = Purger(plan.tasks.repartition_topics, clients.admin)
        dispatcher = self._dispatcher = self._dispatcher_of(plan, spec, clients, purger, who)
        await self._recover(dispatcher)
        membership = self._membership = Membership(
            lambda: clients.group_member(static_member_id(self._application_id, who)),
            plan.tasks.topics,
            lambda partitions, metadata: self._from_thread(events.GroupAssigned(partitions, metadata)),
            dispatcher.suspend_soon,
            lambda error: self._from_thread(self._failed_by(error)),
            max(session_timeout_ms(spec.config.client_entries("consumer.")), SESSION_TIMEOUT_MS) / 1000,
        )
        kept, save = await asyncio.to_thread(wanted_count.load, own_id()), partial(wanted_count.save, own_id())
        scaling = self._scaling = ScalingWatch(spec.config, dispatcher, kept, save, self._loop.time, self._log)
        self._periodic = PeriodicWork(
            spec,
            clients,
            dispatcher,
            membership,
            scaling,
            self._pausing,
            failed_by=self._failed_by,
            broker_is_away=lambda: self._no_broker() is not None,
            program=lambda: self._deployments.spec,
            log=self._log,
        )
        for work in self._periodic.all():
            self._repeat(work)
        self._repeat(Work(_LOOK_AT_CLOCK_S, "take a sample of all figures", self._take_sample))
        self._repeat(Work(PUBLISH_EVERY_S, "publish metrics", self._publish_metrics))
        self._repeat(Work(LOOK_EVERY_S, "look after the HTTP server", self._http.look_after))
        note = TopicNote(self._application_id, plan.internal, lambda: dispatcher.machine.plan, clients, self._loop.time)
        self._repeat(Work(_LOOK_AT_NOTE_S, "note the internal topics", note.look))
        purge_each_s = spec.config.repartition_purge_interval_ms / 1000
        self._repeat(Work(purge_each_s, "purge repartition topics", purger.purge))

    def _dispatcher_of(
        self, plan: TopicPlan, spec: ApplicationSpec, clients: ConfluentClients, purger: Purger, who: str
    ) -> Dispatcher:
        exactly_once = spec.config.processing_guarantee == "exactly_once_v2"
        # Above every epoch that an earlier incarnation gave out, as it gave out fewer than one per millisecond.
        first_epoch, standbys = time.time_ns() // 1_000_000, standby_policy(spec.config)
        machine = Coordinator(
            plan.tasks, spec.config.tasks_per_actor, first_epoch, exactly_once, standbys, self._deployments.rollout,
            self._operations.wishes,
        )  # fmt: skip
        history = self._history = History(machine, lambda: time.time_ns() // 1_000_000, self._restarted)
        environment = RayEnvironment(
            self._deployments, clients, purger, history, self._operations, lambda: self._membership, self._enter,
            bool(standbys.replicas), who,
        )  # fmt: skip
        return Dispatcher(machine, environment, self._pausing, self._log)

    async def _has_ended(self) -> bool:
        """Returns True after a restart if the application had ended before: then only its status is served."""
        if not was_restarted():
            return False
        ended = await asyncio.to_thread(final_state.load, own_id())
        if ended is None:
            return False
        await self._http.ask()
        self._enter(*ended)
        return True

    async def _recover(self, dispatcher: Dispatcher) -> None:
        """After a restart continue with the actors that live; otherwise end them: they ran another program."""
        found = await asyncio.to_thread(StreamActorHandle.find, self._application_id)
        if was_restarted():
            self._spawn(self._http.ask())
            await dispatcher.recover(found)
        else:
            for handle in found:
                handle.kill()

    def _enter(self, state: ApplicationState, error: str | None) -> None:
        if error is not None and error != self._error:
            self._log.error("the application ends in ERROR", error=error)
        self._log.info("application state changed", old=self._state.value, new=state.value)
        self._state, self._error = state, error
        if state.has_ended:
            self._spawn(self._end())

    async def _end(self) -> None:
        try:
            await asyncio.to_thread(final_state.save, own_id(), self._state, self._error)
        except Exception as error:  # whatever Ray has: the end itself must continue
            self._log.error("cannot save the final state", exc_info=error)
        if self._membership is not None:
            await asyncio.to_thread(self._membership.close)
        if self._running_lock is not None:
            self._running_lock.release()
        if self._dispatcher is not None:
            self._dispatcher.close()
        self._background.cancel_others()
        self._ended.set()
        await self._publish_metrics()  # the last state is what is to be seen from now on

    # ---- tasks and threads ----

    def _repeat(self, work: Work) -> None:
        self._spawn(repeat(work, self._log))

    def _failed_by(self, error: BaseException) -> events.ApplicationFailed:
        """Returns the event. The uncaught exception handler is called, too, but there is no actor to replace."""
        of_the_handler = self._uncaught.handle(error) if self._uncaught is not None else ""
        return events.ApplicationFailed(f"{type(error).__name__}: {error}{of_the_handler}")

    def _from_thread(self, event: events.Event) -> None:
        assert self._dispatcher is not None
        self._loop.call_soon_threadsafe(self._dispatcher.feed, event)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._background.begin(work)

    def _internal_error(self, error: BaseException) -> None:
        self._log.error("internal error in the coordinator", exc_info=error)
        what = f"internal error in the coordinator: {error!r}"
        if self._dispatcher is not None:
            self._dispatcher.feed(events.ApplicationFailed(what))
        elif not self._state.has_ended:
            self._enter(ApplicationState.ERROR, what)
