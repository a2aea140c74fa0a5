"""Decides which version of the program each actor runs while a new version replaces the old one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from penstock.cluster.actor_record import ActorRecord, Phase
from penstock.cluster.events import (
    ActorFailed,
    Deploy,
    FindCause,
    Instruction,
    NoRoom,
    ProcessDied,
    SetRollout,
    SetTimer,
    TasksHeld,
    Timer,
)
from penstock.cluster.rollout import Hold, Rollout, RolloutPhase
from penstock.common.handlers import UncaughtExceptionResponse

MOST_DEATHS = 2
"""A new version is rolled back after more deaths of its processes than that, although none of them reported an error.
An actor that is lost with its node does not count."""
ROOM_WAIT_MS = 10_000
"""Milliseconds that a new actor has to start after an old one has made room, before another old one makes room."""


class Rollouts:
    """The part of the coordinator's state machine that handles the versions of the program.

    Actors of another generation than the current one are *outdated*. New actors are started in addition. As soon as one
    of these is up, the outdated ones leave, as those on a drained node do. So moves, warm-ups, fences and losses need
    no rules of their own. A roll-back makes the proven generation the current one again.
    """

    def __init__(
        self, actors: Mapping[str, ActorRecord], rollout: Rollout, instruct: Callable[[Instruction], None]
    ) -> None:
        self.now = rollout
        """The last roll-out."""
        self.makes_room: str | None = None
        """The outdated actor that ends first, because no CPU is free for a new one."""
        self._actors = actors
        self._instruct = instruct
        self._deaths = 0
        self._watching = self._gave_room = self._idle = False
        self._hold: Hold | None = None

    @property
    def under_way(self) -> bool:
        """True if tasks still move from one version to another."""
        return not self.now.phase.is_over and self.now.phase is not RolloutPhase.WATCHING

    @property
    def held(self) -> Hold | None:
        """The reason for which the version on trial is not watched although all tasks run it; None if it is."""
        if self.now.phase is not RolloutPhase.WATCHING:
            return None
        return Hold.NO_TASKS if self._hold is None and self._idle else self._hold

    @property
    def is_urgent(self) -> bool:
        """True if tasks must not wait for actors that start: a version has failed, and the proven one has an actor."""
        return self.now.phase is RolloutPhase.ROLLING_BACK and self._current_is_up

    @property
    def _current_is_up(self) -> bool:
        now = self.now.generation
        return any(actor.phase is Phase.UP and actor.generation == now for actor in self._actors.values())

    def is_outdated(self, name: str) -> bool:
        """True if the actor runs another version than the current one."""
        return self._actors[name].generation != self.now.generation

    def must_leave(self, name: str) -> bool:
        """True if the tasks of the actor are to go elsewhere now."""
        return self.is_outdated(name) and (self._current_is_up or name == self.makes_room)

    def must_end(self, name: str) -> bool:
        """True if the actor ends at once: it has not started, or its CPU is needed and no other can take its tasks."""
        if not self.is_outdated(name):
            return False
        if (phase := self._actors[name].phase) is not Phase.UP:
            return phase is Phase.STARTING
        others = [other for other, actor in self._actors.items() if actor.phase is Phase.UP and other != name]
        return name == self.makes_room and not others

    def node_for_next(self, left: frozenset[str]) -> str:
        """Returns the node on which the next actor is to start, if there is a CPU; empty: any. It has an outdated actor
        with the stores of its tasks on disk, and no new actor yet. Actors need not leave it (``left``)."""
        balance: Counter[str] = Counter()
        for actor in self._actors.values():
            if actor.generation == self.now.generation:
                balance[actor.node or actor.wanted_node] -= 1
            elif actor.phase is Phase.UP and actor.node not in left:
                balance[actor.node] += 1
        node, lacking = max(sorted(balance.items()), key=lambda it: it[1], default=("", 0))
        return node if lacking > 0 else ""

    # ---- events ----

    def deploy(self, event: Deploy) -> None:
        """Begin to roll out another version; one that is still on trial makes way for it."""
        now, starting = event.generation, RolloutPhase.STARTING
        self._begin(Rollout(now, self.now.proven, last=now, phase=starting, watch_s=event.watch_s))

    def failed(self, actor: ActorRecord, event: ActorFailed) -> bool:
        """Take the failure of an actor; returns True if the roll-out answers that, so it must not end the application.

        An actor of the proven version that fails while the other version also works may have met a record that the
        other version wrote. So that is a failure of the version on trial, too.
        """
        if self.on_trial(actor):
            if actor.generation == self.now.generation:
                self._roll_back(event.error)
            return True
        if self._is_mixed and event.response is not UncaughtExceptionResponse.REPLACE_ACTOR:
            both = f"version {self.now.generation} was on trial"
            self._roll_back(f"an actor of version {self.now.proven} failed while {both}: {event.error}")
            return True
        return False

    @property
    def _is_mixed(self) -> bool:
        return self.now.phase in (RolloutPhase.STARTING, RolloutPhase.MOVING)

    def actor_lost(self, actor: ActorRecord) -> None:
        """Take the loss of an actor without an error: its node may be gone, or the program ends its process."""
        if self._is_judged(actor.generation):
            self._instruct(FindCause(actor.generation, actor.node or actor.wanted_node))

    def process_died(self, event: ProcessDied) -> None:
        """Take the finding that only the process of a lost actor has ended, and not its node."""
        if self._is_judged(event.generation):
            self._deaths += 1
            if self._deaths > MOST_DEATHS:
                self._roll_back(f"{self._deaths} processes of its stream actors died, one after another")

    def _is_judged(self, generation: int) -> bool:
        return generation == self.now.generation != self.now.proven

    def no_room(self, _: NoRoom) -> None:
        """New actors wait for a CPU, and none is free: let the outdated one that has least to move make room."""
        waiting = any(
            it.phase is Phase.STARTING and it.generation == self.now.generation for it in self._actors.values()
        )
        if not self.under_way or self._gave_room or self.makes_room is not None or self._current_is_up or not waiting:
            return
        outdated = [(len(it.held), name) for name, it in self._actors.items() if it.phase is Phase.UP]
        if outdated:
            self.makes_room = min(outdated)[1]

    def room_taken(self) -> None:
        """A new actor has had the time to start in the room that was made."""
        self._gave_room = False

    def tasks_held(self, event: TasksHeld) -> None:
        """A version that processes nothing proves nothing: the time in which it is watched begins again afterwards."""
        self._hold = event.by
        if self._hold is not None:
            self._watching = False

    def watched(self, all_run: bool) -> None:
        """The time in which the new version is watched is over. If its tasks do not run now, it begins again."""
        if self._hold is not None:
            return
        self._watching = False
        if self.now.phase is RolloutPhase.WATCHING and all_run:
            self._become(replace(self.now, proven=self.now.generation, phase=RolloutPhase.DONE))

    def look(self, all_run: bool, any_tasks: bool) -> None:
        """See how far the roll-out has come. ``all_run``: each task of this cluster runs where it belongs, if there are
        ``any_tasks``. Without one a roll-out does not wait for tasks, but the version is not proven either."""
        self._idle = all_run and not any_tasks
        if self.makes_room is not None and self.makes_room not in self._actors:
            self.makes_room, self._gave_room = None, True
            self._instruct(SetTimer(Timer.ROOM_TAKEN, ROOM_WAIT_MS))
        phase = self._phase(all_run)
        if self._idle:
            self._watching = False
        elif phase is RolloutPhase.WATCHING and all_run and not self._watching and self._hold is None:
            self._watching = True
            self._instruct(SetTimer(Timer.WATCHED, round(self.now.watch_s * 1000)))
        if phase is not self.now.phase:
            self._become(replace(self.now, phase=phase))

    def _phase(self, all_run: bool) -> RolloutPhase:
        phase = self.now.phase
        if not self.under_way:
            return phase
        if all_run and not any(map(self.is_outdated, self._actors)):
            back = phase is RolloutPhase.ROLLING_BACK
            return RolloutPhase.ROLLED_BACK if back else RolloutPhase.WATCHING
        return RolloutPhase.MOVING if phase is RolloutPhase.STARTING and self._current_is_up else phase

    # ---- decisions ----

    def on_trial(self, actor: ActorRecord) -> bool:
        """True if the actor runs a version that has not worked yet."""
        return actor.generation != self.now.proven

    def _roll_back(self, reason: str) -> None:
        back = replace(self.now, generation=self.now.proven, phase=RolloutPhase.ROLLING_BACK, reason=reason)
        self._begin(back)

    def _begin(self, rollout: Rollout) -> None:
        self._deaths, self._watching, self.makes_room = 0, False, None
        self._become(rollout)

    def _become(self, rollout: Rollout) -> None:
        self.now = rollout
        self._instruct(SetRollout(rollout))
