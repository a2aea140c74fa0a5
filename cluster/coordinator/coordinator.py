"""The coordinator's decisions: events in, instructions out. No clock, no network, no randomness, no Ray.

Invariants, whatever happens (``tests/cluster/test_coordinator_simulation.py`` checks them):

- no two actors hold one task: a task moves only after the actor that had it confirmed its release or died;
- an actor commits only under an assignment it has, and only partitions of tasks that it holds;
- every task that the group gives to this cluster is running after finitely many events without a loss.

The life of an actor::

    StartActor ──> STARTING ──ActorUp──> UP <──> UP, assignment on its way ──StopActor──> STOPPING ──> gone
                       └───────────────── ActorLost, from anywhere ─────────────────────────────────> gone

An actor that is lost with tasks, and may live, is FENCING until it can write nothing any more. Then others get its
tasks. Exactly once, Kafka takes nothing of it then; at least once, its lease is over (``actors/loop/lease.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, assert_never

from penstock.cluster.actor_record import ActorRecord, Phase
from penstock.cluster.coordinator.assignments import Assignments
from penstock.cluster.coordinator.commit_requests import CommitRequests
from penstock.cluster.coordinator.coordinator_view import CoordinatorView
from penstock.cluster.coordinator.fences import Fences
from penstock.cluster.coordinator.replacements import Replacements
from penstock.cluster.coordinator.state_transitions import check_transition
from penstock.cluster.coordinator.user_requests import UserRequests
from penstock.cluster.events import (
    ActorAssigned,
    ActorFailed,
    ActorFenced,
    ActorLost,
    ActorRecovered,
    ActorReported,
    ActorSilent,
    ActorStopped,
    ActorsUnaccounted,
    ActorsWanted,
    ActorUp,
    ApplicationFailed,
    ClusterResized,
    CommitFailed,
    CommitRequested,
    CommitSucceeded,
    Deploy,
    Event,
    GroupAssigned,
    GroupRebalances,
    Instruction,
    KillActor,
    MoveTaskRequested,
    NodesDraining,
    NoRoom,
    ProcessDied,
    RestartActorRequested,
    SetState,
    SetTimer,
    StartActor,
    StopActor,
    StopRequested,
    TasksHeld,
    TasksPlanned,
    Timer,
    TimerFired,
)
from penstock.cluster.names import actor_id, actor_number
from penstock.cluster.placement.owned_tasks import OwnedTasks
from penstock.cluster.placement.standby_assignor import NO_STANDBYS, StandbyPolicy
from penstock.cluster.placement.task_placer import TaskPlacer
from penstock.cluster.programs.rollouts import Rollouts
from penstock.cluster.rollout import NEVER, Rollout
from penstock.cluster.scaling.elasticity import Elasticity
from penstock.cluster.scaling.unfit_nodes import UnfitNodes
from penstock.cluster.status import ApplicationState
from penstock.cluster.wishes import NO_WISHES, Wishes
from penstock.common.handlers import UncaughtExceptionResponse
from penstock.topology.physical.task_plan import TaskPlan

WAIT_FOR_ACTORS_MS = 10_000
"""Milliseconds that tasks wait for actors that start, before those that are up take them all."""
PROBE_EVERY_MS = 600_000
"""Milliseconds for a warm-up to come nearer (Kafka Streams: ``probing.rebalance.interval.ms``)."""


class Coordinator(CoordinatorView):
    """The state machine. ``first_epoch`` must be above every epoch that an earlier coordinator gave out."""

    def __init__(
        self,
        plan: TaskPlan,
        tasks_per_actor: int | None,
        first_epoch: int,
        exactly_once: bool = False,
        standby_policy: StandbyPolicy = NO_STANDBYS,
        rollout: Rollout = NEVER,
        wishes: Wishes = NO_WISHES,
    ) -> None:
        """``rollout``: the last roll-out, and ``wishes``: those of users, as an earlier coordinator kept them."""
        self._owned = OwnedTasks(plan)
        self._exactly_once = exactly_once
        self._next_actor = 1
        self._actors: dict[str, ActorRecord] = {}
        self._rollouts, self._unfit = Rollouts(self._actors, rollout, self._instruct), UnfitNodes()
        self._elasticity = Elasticity(
            self._actors, self._rollouts, self._unfit, tasks_per_actor, standby_policy.replicas
        )
        self._placer = TaskPlacer(
            self._actors, self._owned, standby_policy, self._elasticity.leaves, self._rollouts.is_outdated, wishes
        )
        self._cpus: int | None = None
        self._replacements = Replacements()
        self._waiting_for_actors = self._probing = False
        self._at_rest = self._nothing_new = False
        self._out: list[Instruction] = []
        self._commits = CommitRequests(self._actors, self._owned, exactly_once, self._instruct)
        self._fences = Fences(self._actors, self._owned, exactly_once, self._commits.under_way, self._instruct)
        self._assignments = Assignments(self._actors, self._owned, self._placer, first_epoch, self._instruct)
        self.state = ApplicationState.CREATED
        self.error: str | None = None
        self.user_requests = UserRequests(self, self._actors, self._placer, self._elasticity, self._end, self._instruct)
        self._handlers = self._handlers_of_events()

    def _handlers_of_events(self) -> dict[type, Callable[[Any], None]]:
        return {
            GroupAssigned: lambda event: self._owned.assign(event.partitions, self.epoch, event.group_metadata),
            GroupRebalances: lambda _: self._assignments.suspend(),
            ClusterResized: self._cluster_resized,
            ActorsWanted: self._elasticity.wanted,
            NodesDraining: self._elasticity.draining,
            TasksPlanned: lambda event: self._owned.replan(event.plan),
            ActorRecovered: self._actor_recovered,
            ActorUp: self._actor_up,
            ActorAssigned: self._actor_assigned,
            ActorReported: self._actor_reported,
            ActorSilent: self._actor_silent,
            ActorStopped: lambda event: self._gone(event.actor_id, event.in_doubt),
            ActorLost: self._actor_lost,
            ActorsUnaccounted: self._fences.unaccounted,
            ProcessDied: self._rollouts.process_died,
            ActorFenced: self._fences.fenced,
            ActorFailed: self._actor_failed,
            ApplicationFailed: lambda event: self._fail(event.error),
            CommitRequested: self._commits.requested,
            CommitSucceeded: self._commits.succeeded,
            CommitFailed: self._commit_failed,
            StopRequested: self._stop_requested,
            MoveTaskRequested: self.user_requests.move,
            RestartActorRequested: self.user_requests.restart,
            Deploy: self._rollouts.deploy,
            TasksHeld: self._rollouts.tasks_held,
            NoRoom: self._rollouts.no_room,
            TimerFired: self._timer_fired,
        }

    def handle(self, event: Event) -> list[Instruction]:
        """Take one event; what must be done about it, in order. Events about actors that are gone change nothing."""
        self._nothing_new = False
        self._handlers[type(event)](event)
        # Most events change nothing, such as the second report with the same tasks: each actor sends two a second. Then
        # there is nothing left to do, unless the event before was answered.
        if self._nothing_new and self._at_rest:
            return []
        self._fences.release()
        self._reconcile()
        self._commits.look_again()
        out, self._out = self._out, []
        self._at_rest = not out
        return out

    def _instruct(self, instruction: Instruction) -> None:
        self._out.append(instruction)

    # ---- events ----

    def _cluster_resized(self, event: ClusterResized) -> None:
        self._cpus = event.cpus
        self._unfit.resized(event.cpus_of)
        self._placer.take_labels(event.labels)

    def _actor_recovered(self, event: ActorRecovered) -> None:
        issued = {task: self.plan.partitions.get(task, frozenset()) for task in event.tasks}
        self._actors[event.actor_id] = ActorRecord(
            Phase.UP, event.slot, event.node, event.epoch, event.epoch, issued, event.tasks, unsure=True,
            standbys=event.standbys, lags=event.lags, first_epoch=event.epoch, generation=event.generation,
        )  # fmt: skip
        self._placer.recovered(event.actor_id)
        self._next_actor = max(self._next_actor, actor_number(event.actor_id) + 1)
        self._assignments.go_above(event.epoch)
        if event.stopping:
            self._end(event.actor_id)

    def _actor_up(self, event: ActorUp) -> None:
        actor = self._actors.get(event.actor_id)
        if actor is not None and actor.phase is Phase.STARTING:
            actor.phase, actor.node = Phase.UP, event.node

    def _actor_assigned(self, event: ActorAssigned) -> None:
        actor = self._actors.get(event.actor_id)
        if actor is not None and actor.phase is Phase.UP and event.epoch == actor.epoch:
            actor.confirmed, actor.held, actor.unsure = event.epoch, frozenset(actor.issued), False

    def _actor_reported(self, event: ActorReported) -> None:
        actor = self._actors.get(event.actor_id)
        # One under an earlier assignment may name a task that has been closed since, to read something else.
        if actor is not None and event.epoch == actor.epoch and actor.phase is not Phase.FENCING:
            self._nothing_new = actor.running == event.running and self._placer.is_no_reason_to_choose(
                actor, event.lags
            )
            if actor.running != event.running:
                self._placer.ran(event.running, actor.node)
            actor.running, actor.lags = event.running, event.lags
            actor.worked = actor.worked or bool(event.running)

    def _actor_silent(self, event: ActorSilent) -> None:
        if event.actor_id in self._actors:
            self._actors[event.actor_id].silent = event.silent  # only the state of the application follows

    def _actor_lost(self, event: ActorLost) -> None:
        actor = self._actors.get(event.actor_id)
        if actor is not None and actor.phase in (Phase.STARTING, Phase.UP) and event.created:
            self._rollouts.actor_lost(actor)
        self._gone(event.actor_id, in_doubt=True, may_write_s=event.may_write_s)

    def _gone(
        self,
        name: str,
        in_doubt: bool,
        error: str | None = None,
        may_repeat: bool = True,
        may_write_s: float = 0.0,
    ) -> None:
        """Take the end of an actor: it was lost, has failed with ``error``, or has stopped. ``in_doubt``: its last
        commit is in doubt. ``may_repeat``: the actor in its place may be lost in the same way."""
        actor = self._actors.get(name)
        if actor is None or actor.phase is Phase.FENCING:
            return
        self._forget(name)
        if not self.state.is_live:
            return
        self._fences.actor_gone(name, actor, in_doubt, may_write_s)
        # A version on trial is rolled back instead of being tried ever more slowly.
        if may_repeat and actor.phase is not Phase.STOPPING and not self._rollouts.on_trial(actor):
            lost = self._replacements.actor_lost(actor.worked) if error is None else self._replacements.failed(error)
            self._out += lost

    def _actor_failed(self, event: ActorFailed) -> None:
        actor = self._actors.get(event.actor_id)
        if actor is None or actor.phase is Phase.FENCING:
            return  # given up before, and its tasks wait for the fence
        may_write_s = event.may_write_s  # it has failed: it cannot commit and close any more
        self._out.append(KillActor(event.actor_id))
        disk = self._unfit.failed(event.disk_of, event.error) if event.disk_of and self.state.is_live else []
        if disk:
            self._out += disk  # the next one starts on another node
            self._gone(event.actor_id, in_doubt=True, may_repeat=False, may_write_s=may_write_s)
        elif self.state.is_live and self._rollouts.failed(actor, event):
            self._gone(event.actor_id, in_doubt=True, may_write_s=may_write_s)
        elif self.state.is_live and event.response is UncaughtExceptionResponse.REPLACE_ACTOR:
            self._gone(event.actor_id, in_doubt=True, error=event.error, may_write_s=may_write_s)
        else:
            self._forget(event.actor_id)
            self._fail(event.error)

    def _commit_failed(self, event: CommitFailed) -> None:
        self._commits.failed(event)
        if event.final:
            self._fail(event.error)

    def _stop_requested(self, _: StopRequested) -> None:
        if self.state.is_live:
            self._set_state(ApplicationState.PENDING_SHUTDOWN)

    def _timer_fired(self, event: TimerFired) -> None:
        match event.timer:
            case Timer.WAIT_FOR_ACTORS:
                self._waiting_for_actors = False
            case Timer.REPLACE_ACTORS:
                self._replacements.replace()
            case Timer.PROBE:
                self._probing = False
                self._placer.probe()
            case Timer.WATCHED:
                self._rollouts.watched(self._all_run)
            case Timer.ROOM_TAKEN:
                self._rollouts.room_taken()
            case Timer.TRY_DISKS:
                self._unfit.try_again()
            case Timer.FORGET_LOSSES:
                self._replacements.forget_losses()
            case never:
                assert_never(never)

    # ---- decisions ----

    def _fail(self, error: str) -> None:
        if self.state.is_live or self.state is ApplicationState.PENDING_SHUTDOWN:
            self._set_state(ApplicationState.PENDING_ERROR, error)

    def _reconcile(self) -> None:
        if self.state.is_live:
            if not self._owned.is_known or self._cpus is None:
                return
            self._start_and_stop_actors()
            self._choose_actors()
            self.user_requests.keep_wishes()
            self._assignments.send()
            self._update_state()
            self._rollouts.look(self.state is ApplicationState.RUNNING, bool(self._owned.tasks))
        elif self.state in (ApplicationState.PENDING_SHUTDOWN, ApplicationState.PENDING_ERROR):
            self._commits.refuse_waiting("the application ends")
            for name in list(self._actors):
                self._end(name)
            if not self._actors:
                failed = self.state is ApplicationState.PENDING_ERROR
                self._set_state(ApplicationState.ERROR if failed else ApplicationState.NOT_RUNNING)

    def _start_and_stop_actors(self) -> None:
        """Start actors that are missing, stop those too many or on a node that will be gone."""
        for name in self._elasticity.must_end(set(self._placer.target.values())):
            self._end(name)
        if self.session_lost:
            return  # most likely the next session has the same tasks
        for name in self._elasticity.too_many(self.wanted):
            self._end(name)
        if self._replacements.backing_off:
            return
        for _ in range(self.wanted - len(self.staying)):
            name = actor_id(self._next_actor)
            self._next_actor += 1
            slot, generation, node = self._free_slot(), self.rollout.generation, self._elasticity.node_for_next()
            self._actors[name] = ActorRecord(
                Phase.STARTING, slot, first_epoch=self._assignments.epoch + 1, generation=generation, wanted_node=node,
                avoids=self._unfit.nodes,
            )  # fmt: skip
            self._out.append(StartActor(name, slot, generation, node, self._unfit.nodes))
            if not self._waiting_for_actors:
                self._waiting_for_actors = True
                self._out.append(SetTimer(Timer.WAIT_FOR_ACTORS, WAIT_FOR_ACTORS_MS))

    def _free_slot(self) -> int:
        taken = {actor.slot for actor in self._actors.values()}
        return next(slot for slot in count(1) if slot not in taken)

    def _choose_actors(self) -> None:
        """Choose an actor for every task; while actors are awaited, what has one keeps it, what has a standby that has
        caught up goes there, and the rest waits."""
        if self.session_lost:
            return  # in the next session a task continues where it was, without a long restore
        starting = any(actor.phase is Phase.STARTING for actor in self._actors.values())
        self._placer.keep_or_promote()
        if not starting and not self._replacements.backing_off:
            self._waiting_for_actors = False
        elif (self._waiting_for_actors and not self._rollouts.is_urgent) or self._replacements.backing_off:
            return
        self._placer.choose()
        if self._placer.moving and not self._probing:
            self._probing = True
            self._out.append(SetTimer(Timer.PROBE, PROBE_EVERY_MS))

    def _update_state(self) -> None:
        """Enter RUNNING if there is a session and each task from the group runs where it belongs; else REBALANCING."""
        settled = [actor for actor in self._actors.values() if actor.settled and not actor.silent]
        running = {task for actor in settled for task in actor.running & actor.issued.keys()}
        moving = self.session_lost or self._owned.rebalancing or bool(self.unplanned)
        done = running >= self._owned.tasks and not moving
        state = ApplicationState.RUNNING if done else ApplicationState.REBALANCING
        if self.state is ApplicationState.CREATED and done:
            self._set_state(ApplicationState.REBALANCING)
        if state is not self.state:
            self._set_state(state)

    @property
    def _all_run(self) -> bool:
        return self.state is ApplicationState.RUNNING and bool(self._owned.tasks)

    def _end(self, name: str) -> None:
        """Stop an actor: one that still starts has nothing to commit."""
        actor = self._actors[name]
        if actor.phase is Phase.FENCING:
            self._forget(name)  # nothing waits for its tasks any more
        elif actor.phase is Phase.STARTING:
            self._forget(name)
            self._out.append(KillActor(name))
        elif actor.phase is Phase.UP:
            actor.phase = Phase.STOPPING
            self._out.append(StopActor(name))

    def _forget(self, name: str) -> None:
        self._actors.pop(name, None)

    def _set_state(self, state: ApplicationState, error: str | None = None) -> None:
        check_transition(self.state, state)
        self.state = state
        self.error = error or self.error
        self._out.append(SetState(state, self.error))
