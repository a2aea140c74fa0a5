"""Decides how many actors the coordinator's machine wants, by what the actors report.

With ``min.stream.actors`` or ``max.stream.actors`` the advice of :class:`~penstock.cluster.scaling.scaling.Scaling` is
followed; without them it is only reported. In both cases users can add and remove actors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import Protocol

from structlog.stdlib import BoundLogger

from penstock.actors.status import ActorStatus, TaskState
from penstock.cluster.events import ActorsWanted, Event
from penstock.cluster.scaling.load import LoadWindow
from penstock.cluster.scaling.scaling import Advice, Scaling, Situation
from penstock.cluster.scaling.wanted_count import WantedCount
from penstock.cluster.scaling_status import ScalingStatus
from penstock.cluster.status import ApplicationState
from penstock.common.config import StreamsConfig
from penstock.common.ids import TaskId
from penstock.topology.physical.task_plan import TaskPlan

_ANSWERS_KEPT = 20
_BY_A_USER = "requested by a user"


class Machine(Protocol):
    """The part of the coordinator's state machine that is needed here."""

    @property
    def state(self) -> ApplicationState:
        """The state of the application."""

    @property
    def plan(self) -> TaskPlan:
        """The tasks there are."""

    @property
    def tasks(self) -> Collection[TaskId]:
        """Tasks that the group gives to this cluster."""

    @property
    def starting(self) -> Iterable[str]:
        """Every actor that is not up yet."""

    @property
    def staying(self) -> Collection[str]:
        """Every actor that is up, or starts, and is not to end."""

    @property
    def wanted(self) -> int:
        """Number of actors that there should be."""

    @property
    def most_actors(self) -> int:
        """Number of actors beyond which further ones would have nothing to do."""

    @property
    def actors_per_task(self) -> int:
        """Number of actors that a task and its standbys need."""

    @property
    def hindrance(self) -> str | None:
        """The reason why the number of actors cannot be judged now; None if there is none."""


class Dispatcher(Protocol):
    """The part of the coordinator's dispatcher that is needed here."""

    @property
    def machine(self) -> Machine:
        """The state machine, to look at."""

    @property
    def statuses(self) -> tuple[ActorStatus, ...]:
        """The last status of each actor."""

    def feed(self, event: Event) -> None:
        """Let the machine take one event."""


class ScalingWatch:
    """One per coordinator; everything runs in its event loop. ``save`` keeps the number wanted, for a restarted one;
    ``clock`` gives seconds."""

    def __init__(
        self,
        config: StreamsConfig,
        dispatcher: Dispatcher,
        kept: WantedCount | None,
        save: Callable[[WantedCount], None],
        clock: Callable[[], float],
        log: BoundLogger,
    ) -> None:
        self._automatic = config.scales
        self._minimum = config.min_stream_actors or 1
        self._maximum = config.max_stream_actors
        self._dispatcher = dispatcher
        self._machine = dispatcher.machine
        self._wanted = kept
        self._save = save
        self._clock = clock
        self._log = log
        self._saving = asyncio.Lock()
        window_s = config.scaling_window_ms / 1000
        self._window = LoadWindow(window_s)
        stateful, actors_per_task = frozenset(self._machine.plan.stateful), self._machine.actors_per_task
        actors_per_task = min(actors_per_task, self._maximum or actors_per_task)
        self._scaling = Scaling(self._minimum, self._maximum, window_s, stateful, actors_per_task)
        self._advice: Advice | None = None
        if kept is not None:
            dispatcher.feed(ActorsWanted(kept.count))

    async def cluster_has(self, cpus: int) -> None:
        """Take the number of CPUs: if the number of actors follows the load, one per CPU begins, within the bounds."""
        if self._automatic and self._wanted is None:
            count = max(cpus, self._minimum)
            await self._want(count if self._maximum is None else min(count, self._maximum), "initially one per CPU")

    async def look(self) -> None:
        """Measure, and follow the advice."""
        machine = self._machine
        if not machine.state.is_live or not machine.wanted:
            return
        actors = self._dispatcher.statuses
        hindrance = machine.hindrance or self._unsettled(actors)
        loads = self._window.look(self._clock(), actors)
        starting = sum(name in machine.staying for name in machine.starting)
        seen = Situation(self._clock(), machine.wanted, len(machine.tasks), loads, starting, hindrance)
        self._advice = self._scaling.look(seen)
        if self._automatic and self._advice.actors != machine.wanted:
            await self._want(self._advice.actors, self._advice.reason)

    def _unsettled(self, actors: tuple[ActorStatus, ...]) -> str | None:
        tasks = {task.task_id: task for actor in actors for task in actor.tasks}
        waiting = next((task for task in sorted(self._machine.tasks) if task not in tasks), None)
        if waiting is not None or self._machine.state is not ApplicationState.RUNNING:
            restoring = next((it for it in tasks.values() if it.state is TaskState.RESTORING), None)
            return "tasks move" if restoring is None else f"task {restoring.task_id} restores"
        return None

    async def _want(self, count: int, reason: str) -> None:
        self._log.info("stream actors wanted", actors=count, before=self._machine.wanted, reason=reason)
        self._dispatcher.feed(ActorsWanted(count))
        await self._keep(count, {})

    async def _keep(self, count: int, answers: dict[str, str | None]) -> None:
        known = {**answers, **(self._wanted.answers if self._wanted is not None else {})}
        self._wanted = WantedCount(count, dict(islice(known.items(), _ANSWERS_KEPT)))
        async with self._saving:  # one after the other, and the last is the latest
            await asyncio.to_thread(self._save, self._wanted)

    # ---- what users want ----

    async def change(self, by: int, call: str) -> str | None:
        """Add an actor (``by`` is 1) or remove one (-1); returns its id. None when that is not possible: the
        application is neither RUNNING nor REBALANCING, there would be too many or too few, or none could be started
        now. ``call`` is the id of the call, which may come again."""
        if self._wanted is not None and call in self._wanted.answers:
            return self._wanted.answers[call]
        before, machine = self._machine.wanted, self._machine
        if self.refusal(before + by) is not None or before + by > machine.most_actors:
            return None
        staying = set(machine.staying)
        self._dispatcher.feed(ActorsWanted(before + by))
        changed = sorted(staying ^ set(machine.staying))
        if len(changed) != 1:
            self._dispatcher.feed(ActorsWanted(before))
            return None
        self._log.info("stream actors wanted", actors=before + by, before=before, reason=_BY_A_USER)
        await self._keep(before + by, {call: changed[0]})
        return changed[0]

    def refusal(self, count: int) -> str | None:
        """Returns the reason why ``count`` is not allowed now; None if it is."""
        if self._machine.state not in (ApplicationState.RUNNING, ApplicationState.REBALANCING):
            return f"the application is in state {self._machine.state.value}"
        if count < self._minimum:
            return f"the minimum is {self._minimum}" + (" (min.stream.actors)" if self._automatic else "")
        if self._maximum is not None and count > self._maximum:
            return f"the maximum is {self._maximum} (max.stream.actors)"
        return None

    async def become(self, count: int) -> str | None:
        """Set the number of actors from now on; returns the reason if that is refused."""
        refused = self.refusal(count)
        if refused is None:
            await self._want(count, _BY_A_USER)
        return refused

    @property
    def status(self) -> ScalingStatus | None:
        """The number of actors that is wanted, the one that is advised, and why; None while none is wanted."""
        wanted, most = self._machine.wanted, self._machine.most_actors
        if not wanted:
            return None
        advice = self._advice or Advice(wanted, "not measured yet")
        most = min(most, self._maximum or most)
        return ScalingStatus(
            wanted, advice.actors, advice.reason, self._automatic, min(self._minimum, most), most, advice.counts
        )
