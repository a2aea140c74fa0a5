"""Connects the coordinator's state machine to Ray and Kafka: feeds it events, carries out every instruction it gives.

It sees them only by the protocols in ``environment.py``, so that a simulation drives this very code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar, assert_never

from structlog.stdlib import BoundLogger

from penstock.actors.commit_messages import CommitAnswer, CommitRequest
from penstock.actors.orders import Assign
from penstock.actors.status import ActorStatus, TaskState
from penstock.cluster import events
from penstock.cluster.coordinator.coordinator import Coordinator
from penstock.cluster.coordinator_shell.background_tasks import BackgroundTasks
from penstock.cluster.coordinator_shell.pausing import Pausing
from penstock.cluster.coordinator_shell.suspending import suspend_all
from penstock.cluster.environment import (
    ActorEndedError,
    ActorFailedError,
    ActorHandle,
    ActorLostError,
    ActorNameTakenError,
    CommitRefusedError,
    Environment,
)
from penstock.cluster.watchers.actor_watch import ActorWatch, status_after_restart
from penstock.cluster.watchers.leases import Leases, wait_until_lease_ends
from penstock.cluster.watchers.loss_causes import find_cause
from penstock.cluster.watchers.overdue import OverdueOrders, stopped
from penstock.cluster.watchers.silence import Silence
from penstock.common.errors import ConfigError, KafkaRefusedError, StreamsError
from penstock.common.ids import CommittedOffset, TaskId

T = TypeVar("T")
COMMIT_AGAIN_S = 0.5
FENCE_AGAIN_S = 0.5


class Dispatcher:
    """Owns the machine, the actors' handles, timers, and the calls that wait for the answer to a commit.

    Everything runs in one event loop. ``close`` ends it, and refuses the calls that still wait.
    """

    def __init__(self, machine: Coordinator, environment: Environment, pausing: Pausing, log: BoundLogger) -> None:
        self._machine = machine
        self._pausing = pausing
        self._environment = environment
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._handles: dict[str, ActorHandle] = {}
        self._statuses: dict[str, ActorStatus] = {}
        self._silence = Silence(self._loop.time, fenced=machine.exactly_once)
        self._leases = Leases(self._loop.time, machine.epoch + 1)
        self._actor_watch = ActorWatch(
            self._silence,
            environment.node,
            machine.node_of,
            self._heard,
            lambda name, silent: self.feed(events.ActorSilent(name, silent)),
            self._declare_lost,
            self._leases,
            self._spawn,
        )
        self._overdue = OverdueOrders(self._loop.time)
        self._timers: dict[events.Timer, asyncio.TimerHandle] = {}
        self._background = BackgroundTasks(self._loop, self._internal_error)
        self._asked: dict[tuple[str, int], list[asyncio.Future[CommitAnswer]]] = {}
        self._closed = False

    @property
    def machine(self) -> Coordinator:
        """The state machine, to be read; events go through :meth:`feed`."""
        return self._machine

    @property
    def handles(self) -> Mapping[str, ActorHandle]:
        """Every actor that is not gone."""
        return self._handles

    @property
    def up(self) -> list[ActorHandle]:
        """Every actor that has started and is not gone."""
        return [handle for name, handle in self._handles.items() if self._machine.is_up(name)]

    @property
    def statuses(self) -> tuple[ActorStatus, ...]:
        """The last status of each actor, by name."""
        return tuple(self._statuses[name] for name in sorted(self._statuses) if name in self._handles)

    @property
    def silent(self) -> str | None:
        """Describes the actors that are silent or busy for long; None if all answer."""
        return self._silence.notice(self._machine.placement)

    @property
    def report_ages_s(self) -> dict[str, float]:
        """Seconds since each actor gave its status."""
        return self._silence.report_ages_s()

    def feed(self, event: events.Event) -> None:
        """Let the machine take one event, and carry out all its instructions."""
        if not self._closed:
            instructions = self._machine.handle(event)
            self._environment.decided(event, instructions)
            for instruction in instructions:
                try:
                    self._carry_out(instruction)
                except Exception as error:  # the other instructions must be carried out all the same
                    self._internal_error(error)

    async def commit(self, request: CommitRequest) -> CommitAnswer:
        """Commit for an actor. Returns when Kafka has the offsets, or the refusal. May be repeated and cancelled."""
        if self._closed:
            return CommitAnswer(False, "the application has ended")
        answer: asyncio.Future[CommitAnswer] = self._loop.create_future()
        waiting = self._asked.setdefault((request.actor_id, request.number), [])
        waiting.append(answer)
        try:
            self.feed(events.CommitRequested(request))
            return await answer
        finally:
            waiting.remove(answer)

    def suspend(self) -> asyncio.Task[None]:
        """Have all actors commit what they have done and suspend their tasks until the next assignment: the group
        rebalances. The machine knows of it when this returns; the result is done when all have, or after SUSPEND_S."""
        self.feed(events.GroupRebalances())
        return self._loop.create_task(suspend_all(self.up, self._machine.epoch, self._log))

    def suspend_soon(self) -> Future[None]:
        """Like :meth:`suspend`, from any thread; in order with what that has fed by ``call_soon_threadsafe``."""
        done: Future[None] = Future()

        def begin() -> None:
            try:
                self.suspend().add_done_callback(lambda _: done.set_result(None))
            except BaseException as error:  # the thread that waits must get it, too
                done.set_exception(error)
                raise

        self._loop.call_soon_threadsafe(begin)
        return done

    async def recover(self, found: Iterable[ActorHandle]) -> None:
        """After a restart, continue with the actors that live; end one that does not answer."""
        handles = list(found)
        statuses = await asyncio.gather(*(status_after_restart(handle, self._leases) for handle in handles))
        self._leases.go_above(max((status.incarnation for status in statuses if status), default=0))
        for handle, status in zip(handles, statuses, strict=True):
            if status is None:
                self._log.warning("actor killed because it does not answer", actor=handle.actor_id)
                handle.kill()
            else:
                self._adopt(handle, status)
        self.feed(events.ActorsUnaccounted(self._leases.unknown_s))

    def close(self) -> None:
        """Stop all work; the actors are left alone. Idempotent."""
        self._closed = True
        self._background.cancel_others()
        for timer in self._timers.values():
            timer.cancel()
        for asked in list(self._asked):
            self._answer(asked, CommitAnswer(False, "the application has ended"))

    # ---- instructions ----

    def _carry_out(self, instruction: events.Instruction) -> None:
        match instruction:
            case events.StartActor():
                self._create(instruction)
            case events.AssignTasks(name, epoch, tasks, standbys):
                self._assign(name, epoch, tasks, standbys)
            case events.StopActor(name):
                self._log.info("stopping actor", actor=name)
                self._spawn(self._call(name, stopped, partial(events.ActorStopped, name)))
            case events.KillActor(name):
                self._log.info("killing actor", actor=name)
                self._kill(name)
            case events.FenceActor(name, slot):
                self._spawn(self._fence(name, slot) if self._machine.exactly_once else self._outwait(instruction))
            case events.FindCause():
                self._spawn(find_cause(instruction, self._environment.node, self.feed))
            case events.CommitOffsets(request):
                self._spawn(self._commit(request))
            case events.AcceptCommit(request, metadata):
                self._answer((request.actor_id, request.number), CommitAnswer(True, group_metadata=metadata))
            case events.RefuseCommit(request, reason):
                self._log.warning("commit refused", actor=request.actor_id, number=request.number, reason=reason)
                self._answer((request.actor_id, request.number), CommitAnswer(False, reason))
            case events.SetTimer(timer, delay_ms):
                if timer in self._timers:
                    self._timers[timer].cancel()
                self._timers[timer] = self._loop.call_later(delay_ms / 1000, self.feed, events.TimerFired(timer))
            case events.SetState(state, error):
                self._environment.entered(state, error)
            case events.SetRollout(rollout):
                self._environment.rolled_out(rollout)
            case events.SetWishes(wishes):
                self._environment.wished(wishes)
            case _:
                assert_never(instruction)

    def _create(self, it: events.StartActor) -> None:
        self._log.info("starting actor", actor=it.actor_id, generation=it.generation)
        try:
            handle = self._environment.create_actor(it.actor_id, it.generation, it.node, it.avoid)
        except ActorNameTakenError as error:
            # Ray still holds the name of an actor that died before our restart: the next has another number.
            self._log.warning("actor not created", actor=it.actor_id, error=str(error))
            self._loop.call_soon(self.feed, events.ActorLost(it.actor_id, created=False))
            return
        self._handles[it.actor_id] = handle
        self._spawn(self._start(handle, it.slot))

    async def _start(self, handle: ActorHandle, slot: int) -> None:
        name = handle.actor_id

        async def start(it: ActorHandle) -> str:
            node = await it.start(slot)
            await self._pausing.started(it)
            self._leases.started(name)
            return node

        await self._call(name, start, lambda node: events.ActorUp(name, node))
        await self._watch(handle)

    def _adopt(self, handle: ActorHandle, status: ActorStatus) -> None:
        name = handle.actor_id
        held = frozenset(task.task_id for task in status.tasks if task.state is not TaskState.CLOSED)
        self._log.info("recovered running actor", actor=name, tasks=sorted(map(str, held)), stopping=status.stopping)
        self._handles[name] = handle
        self._statuses[name] = status
        lags = _lags(status)
        recovered = events.ActorRecovered(
            name, status.epoch, held, stopping=status.stopping, slot=status.slot, node=status.node_id,
            standbys=frozenset(lags), lags=lags, generation=status.generation,
        )  # fmt: skip
        self.feed(recovered)
        self._spawn(self._watch(handle))

    def _assign(self, name: str, epoch: int, tasks: frozenset[TaskId], standbys: frozenset[TaskId]) -> None:
        kept = {"standbys": sorted(map(str, standbys))} if standbys else {}
        self._log.info("assigning tasks", actor=name, epoch=epoch, tasks=sorted(map(str, tasks)), **kept)
        reads = self._machine.plan.partitions
        sources, followed = ({task: reads[task] for task in sorted(wanted)} for wanted in (tasks, standbys))
        order, assigned = Assign(epoch, sources, followed), events.ActorAssigned(name, epoch)
        self._overdue.assignment_sent(name, epoch)

        def confirmed(_: bool) -> events.Event:
            self._overdue.carried_out(name, epoch)
            return assigned

        self._spawn(self._call(name, lambda it: it.insist(order), confirmed))

    async def _call(
        self, name: str, call: Callable[[ActorHandle], Coroutine[Any, Any, T]], success: Callable[[T], events.Event]
    ) -> None:
        """Make one call to an actor and feed its result."""
        handle = self._handles.get(name)
        if handle is None:
            return  # it is gone, and the machine has forgotten it
        try:
            answer = await call(handle)
        except ActorLostError as error:
            self._lost(name, error)
        except ActorEndedError:
            return  # its watcher feeds the machine the reason
        except ActorFailedError as error:
            self.feed(events.ActorFailed(name, str(error), may_write_s=self._leases.give_up(name)))
        else:
            event = success(answer)
            if isinstance(event, events.ActorStopped):
                self._kill(name)
            self.feed(event)

    async def _watch(self, handle: ActorHandle) -> None:
        """Notice the end of the actor's loop, or of its process."""
        name = handle.actor_id
        if name not in self._handles:
            return
        try:
            end = await handle.wait()
        except StreamsError as problem:
            self._lost(name, problem)
            return
        if end.error is not None:
            self._log.warning("actor failed", actor=name, response=end.response.value, error=end.error)
            self.feed(events.ActorFailed(name, end.error, end.response, end.disk_of))
        elif self._kill(name):
            self.feed(events.ActorStopped(name, end.in_doubt))

    def _lost(self, name: str, error: StreamsError) -> None:
        self._declare_lost(name, str(error), has_ended=isinstance(error, ActorLostError) and error.has_ended)

    def _declare_lost(self, name: str, reason: str, has_ended: bool = False) -> None:
        may_write_s = self._leases.give_up(name)
        if self._kill(name):
            self._log.warning("actor lost", actor=name, reason=reason)
            self.feed(events.ActorLost(name, may_write_s=0.0 if has_ended else may_write_s))

    def _kill(self, name: str) -> bool:
        """Kill the actor's process, so that it holds no tasks, and forget it; returns True if it was there."""
        handle = self._handles.pop(name, None)
        self._overdue.forget(name)
        if handle is not None:
            handle.kill()
        return handle is not None

    # ---- fences and commits ----

    async def _outwait(self, lost: events.FenceActor) -> None:
        log = self._log.bind(actor=lost.actor_id)
        log.info("waiting for the end of a lost actor's lease", at_most_s=round(lost.may_write_s, 1))
        waited_s = await wait_until_lease_ends(lost, self._environment.node)
        log.info("lease of the lost actor has ended", waited_s=round(waited_s, 1))
        self.feed(events.ActorFenced(lost.actor_id))

    async def _fence(self, name: str, slot: int) -> None:
        while True:
            try:
                await self._environment.fence(slot)
            except (ConfigError, KafkaRefusedError) as error:
                self._log.error("actor not fenced, not retriable", actor=name, error=str(error))
                self.feed(events.ApplicationFailed(f"{type(error).__name__}: {error}"))
                return
            except StreamsError as error:
                self._log.warning("actor not fenced, retrying", actor=name, error=str(error))
                await asyncio.sleep(FENCE_AGAIN_S)
            else:
                self._log.info("actor fenced", actor=name)
                self.feed(events.ActorFenced(name))
                return

    async def _commit(self, request: CommitRequest) -> None:
        offsets = {partition: CommittedOffset(*position) for partition, position in request.offsets.items()}
        try:
            await self._environment.commit(offsets)
        except CommitRefusedError as error:
            self._log.error("commit failed, not retriable", actor=request.actor_id, error=str(error))
            self.feed(events.CommitFailed(request, str(error), final=True))
        except StreamsError as error:
            # A rebalance passes, a broker comes back; the machine decides again if the actor may still commit.
            self._log.warning("commit failed, retrying", actor=request.actor_id, error=str(error))
            await asyncio.sleep(COMMIT_AGAIN_S)
            self.feed(events.CommitFailed(request, str(error)))
        except Exception as error:  # unforeseen; the actor must have an answer all the same
            self._log.error("internal error in a commit", actor=request.actor_id, exc_info=error)
            self.feed(events.CommitFailed(request, f"internal error in the coordinator: {error!r}", final=True))
        else:
            self.feed(events.CommitSucceeded(request))

    def _answer(self, asked: tuple[str, int], answer: CommitAnswer) -> None:
        for waiting in self._asked.pop(asked, ()):
            if not waiting.done():
                waiting.set_result(answer)

    # ---- periodic checks ----

    async def check_actors(self) -> None:
        """Ask each actor for its status; one that is lost is killed. Waits for no actor that does not answer."""
        await self._actor_watch.look(self.up)
        for name in self._statuses.keys() - self._handles.keys():
            del self._statuses[name]

    def _heard(self, handle: ActorHandle, status: ActorStatus) -> None:
        if (reason := self._overdue.reported(status)) is not None:
            self._declare_lost(handle.actor_id, reason)
            return
        self._statuses[handle.actor_id] = status.without_log
        self._environment.reported(status)
        if self._pausing.contradicts(status):
            self._spawn(self._pausing.tell(handle))
        running = frozenset(task.task_id for task in status.tasks if task.state is TaskState.RUNNING)
        self.feed(events.ActorReported(handle.actor_id, running, status.epoch, _lags(status)))

    # ---- tasks ----

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        if self._closed:
            work.close()
            return None
        return self._background.begin(work)

    def _internal_error(self, error: BaseException) -> None:
        self._log.error("internal error in the coordinator", exc_info=error)
        if not self._machine.state.has_ended:
            self._loop.call_soon(self.feed, events.ApplicationFailed(f"internal error in the coordinator: {error!r}"))


def _lags(status: ActorStatus) -> dict[TaskId, int]:
    return {standby.task_id: standby.lag for standby in status.standbys}
