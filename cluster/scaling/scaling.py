"""Decides how many stream actors there should be, by the time that the busiest of them needs to catch up.

Pure: what was measured goes in, with the time; a number of actors and the reason come out. If an actor needs more than
its time to keep up with what comes, and to work off its lag within CATCH_UP_WINDOWS, there should be more of them. The
assignor gives the placement of the tasks then: so a partition that is too hot by itself is seen, too.

Rules, which ``tests/cluster/test_scaling.py`` tests:

- lag alone decides nothing: lag that is worked off in time is left alone;
- only numbers of actors that use the partitions evenly: those with which the most that any actor hosts gets less;
- nothing is decided while a task restores or moves, nor before one window was measured since;
- fewer actors only when the most that was seen in DOWN_WINDOWS leaves them room;
- additional actors that did not help are taken back, and not tried again for BARRED_WINDOWS.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.cluster.placement.assignor import assign
from penstock.cluster.scaling.load import TaskLoad
from penstock.cluster.scaling_status import ActorCount
from penstock.common.ids import TaskId
from penstock.common.shown import counted

CATCH_UP_WINDOWS = 2
DOWN_WINDOWS = 5
BARRED_WINDOWS = 20
ROOM_WHEN_FEWER = 0.7
"""Largest share of its time that the busiest of fewer actors may need: else they would be too few again soon."""
LEAST_GAIN = 0.1
"""Least share by which more actors must improve the busiest one's work, and then the records per second."""


@dataclass(frozen=True)
class Situation:
    """The situation at one look. ``loads``: None when nothing was measured. ``hindrance``: why nothing may be decided
    now; ``starting``: number of actors that are not up."""

    now_s: float
    wanted: int
    tasks: int
    loads: Mapping[TaskId, TaskLoad] | None
    starting: int = 0
    hindrance: str | None = None


@dataclass(frozen=True)
class Advice:
    """A number of actors and the reason for it, with the effect of each other number."""

    actors: int
    reason: str
    counts: tuple[ActorCount, ...] = ()


@dataclass(frozen=True)
class _Trial:
    """A trial of more actors: ``rate`` is what the tasks that needed them processed before, in records per second."""

    before: int
    after: int
    lagging: frozenset[TaskId]
    rate: float


def even_counts(tasks: int, minimum: int, maximum: int | None) -> list[int]:
    """Returns the numbers of actors for which the fullest actor has fewer tasks than it would with one actor less."""
    most, least = min(tasks, maximum or tasks), min(tasks, minimum)
    even = [count for count in range(least, most + 1) if count == 1 or -(-tasks // count) < -(-tasks // (count - 1))]
    return even or [least]


class Scaling:
    """The state machine. ``minimum`` and ``maximum``: how many actors there may be; None: one for each task. With fewer
    than ``actors_per_task``, standbys would have no place."""

    def __init__(
        self, minimum: int, maximum: int | None, window_s: float, stateful: frozenset[int], actors_per_task: int = 1
    ) -> None:
        self._actors_per_task = actors_per_task
        self._minimum = minimum
        self._maximum = maximum
        self._window_s = window_s
        self._catch_up_s = CATCH_UP_WINDOWS * window_s
        self._stateful = stateful
        self._demands: deque[tuple[float, Mapping[TaskId, float]]] = deque()
        self._placement: Mapping[TaskId, str] = {}
        self._hosted: dict[int, Mapping[str, list[TaskId]]] = {}
        """The tasks of each actor, by the number of actors."""
        self._trial: _Trial | None = None
        self._barred: tuple[int, float, str] | None = None

    def look(self, seen: Situation) -> Advice:
        """Returns what is advised now; it is expected to be done."""
        if self._trial is not None and self._trial.after != seen.wanted:
            self._trial = None  # a user has decided since
        if seen.hindrance is not None or not seen.loads:
            self._demands.clear()
            return Advice(seen.wanted, seen.hindrance or "not measured for long enough yet")
        placement = {task: load.actor for task, load in seen.loads.items()}
        if placement != self._placement:
            self._demands.clear()
            self._hosted.clear()
        self._placement = placement
        self._remember(seen.now_s, seen.loads)
        counts = even_counts(seen.tasks, self._minimum, self._maximum)
        expected = {count: self._expect(count, seen.loads) for count in sorted({*counts, seen.wanted})}
        actors, reason = self._decide(seen, seen.loads, counts, expected)
        return Advice(actors, reason, tuple(expected.values()))

    def _remember(self, now_s: float, loads: Mapping[TaskId, TaskLoad]) -> None:
        # A few looks per window are enough: no actors are started for shorter peaks.
        if not self._demands or now_s - self._demands[-1][0] >= self._window_s / 4:
            self._demands.append((now_s, {task: load.demand(self._catch_up_s) for task, load in loads.items()}))
        while len(self._demands) > 2 and now_s - self._demands[1][0] >= DOWN_WINDOWS * self._window_s:
            self._demands.popleft()

    # ---- what to expect ----

    def _placed(self, count: int) -> Mapping[str, list[TaskId]]:
        """Returns the tasks of each actor if there were ``count``; with as many as now, where they are."""
        if count not in self._hosted:
            self._hosted[count] = self._place(count)
        return self._hosted[count]

    def _place(self, count: int) -> Mapping[str, list[TaskId]]:
        now = sorted(set(self._placement.values()))
        if count == len(now):
            placement: Mapping[TaskId, str] = self._placement
        else:
            actors = (now + [f"new/{number}" for number in range(count - len(now))])[:count]
            placement = assign(self._placement.keys(), actors, self._placement, self._stateful)
        hosted: dict[str, list[TaskId]] = {}
        for task, actor in placement.items():
            hosted.setdefault(actor, []).append(task)
        return hosted

    def _busiest(self, count: int, demands: Mapping[TaskId, float]) -> float:
        return max(sum(demands[task] for task in tasks) for tasks in self._placed(count).values())

    def _expect(self, count: int, loads: Mapping[TaskId, TaskLoad]) -> ActorCount:
        hosted = self._placed(count).values()
        demands = {task: load.demand(self._catch_up_s) for task, load in loads.items()}
        times = [_catch_up([loads[task] for task in tasks]) for tasks in hosted]
        never = any(time_s is None for time_s in times)
        longest = None if never else max(time_s for time_s in times if time_s is not None)
        return ActorCount(count, max(map(len, hosted)), self._busiest(count, demands), longest)

    # ---- the decision ----

    def _decide(
        self,
        seen: Situation,
        loads: Mapping[TaskId, TaskLoad],
        counts: list[int],
        expected: Mapping[int, ActorCount],
    ) -> tuple[int, str]:
        here = len(set(self._placement.values()))
        if seen.starting == 0 and here != min(seen.wanted, seen.tasks):
            return seen.wanted, "tasks are being assigned"
        if self._trial is not None and seen.starting == 0:
            trial, self._trial = self._trial, None
            rate = sum(loads[task].processed for task in trial.lagging if task in loads)
            if expected[seen.wanted].busiest > 1 and rate < (1 + LEAST_GAIN) * trial.rate:
                return self._undo(seen.now_s, trial, rate)
        if seen.starting == 0 and expected[seen.wanted].busiest > 1:
            return self._more(seen, loads, counts, expected)
        if (fewer := self._fewer(seen, counts)) is not None:
            most = self._busiest(fewer, self._recent_maximum())
            return fewer, f"{_actors(fewer)} would be enough: the busiest would be busy {most:.0%} at most"
        if seen.starting:
            return seen.wanted, f"{_actors(seen.starting)} of {seen.wanted} not up yet: those that are take all tasks"
        return seen.wanted, _enough(expected[seen.wanted])

    def _more(
        self,
        seen: Situation,
        loads: Mapping[TaskId, TaskLoad],
        counts: list[int],
        expected: Mapping[int, ActorCount],
    ) -> tuple[int, str]:
        now = expected[seen.wanted]
        trouble = _trouble(now, sum(load.lag for load in loads.values()))
        more = [count for count in counts if count > seen.wanted]
        if not more:
            return seen.wanted, f"{trouble}; no more actors are allowed, or more would have no tasks"
        if self._barred is not None and seen.now_s < self._barred[1]:
            more = [count for count in more if count < self._barred[0]]
            if not more:
                left_s = self._barred[1] - seen.now_s
                return seen.wanted, f"{trouble}; {self._barred[2]}, which is not tried again for {left_s:.0f} s"
        best = min(expected[count].busiest for count in more)
        chosen = next(count for count in more if expected[count].busiest <= max(1.0, best / (1 - LEAST_GAIN / 2)))
        if expected[chosen].busiest > (1 - LEAST_GAIN) * now.busiest:
            hot = max(loads, key=lambda task: loads[task].demand(self._catch_up_s))
            share = loads[hot].demand(self._catch_up_s)
            return seen.wanted, f"{trouble}; more actors would not help: task {hot} alone needs {share:.0%} of one"
        heavy = {actor for actor, tasks in self._placed(seen.wanted).items() if self._needs_more(tasks, loads)}
        lagging = frozenset(task for task, load in loads.items() if load.actor in heavy)
        self._trial = _Trial(seen.wanted, chosen, lagging, sum(loads[task].processed for task in lagging))
        return chosen, f"{trouble}; with {_actors(chosen)} {_catching_up(expected[chosen])}"

    def _needs_more(self, tasks: Iterable[TaskId], loads: Mapping[TaskId, TaskLoad]) -> bool:
        return sum(loads[task].demand(self._catch_up_s) for task in tasks) > 1

    def _undo(self, now_s: float, trial: _Trial, rate: float) -> tuple[int, str]:
        what = f"{_actors(trial.after)} processed {rate:,.0f} records/s, {trial.before} before {trial.rate:,.0f}"
        self._barred = (trial.after, now_s + BARRED_WINDOWS * self._window_s, what)
        return trial.before, f"more actors did not help: {what}"

    def _fewer(self, seen: Situation, counts: list[int]) -> int | None:
        """Returns fewer actors that would have been enough for long; None if there are none, or it is not known yet."""
        if not self._demands or seen.now_s - self._demands[0][0] < DOWN_WINDOWS * self._window_s:
            return None
        most = self._recent_maximum()
        fewer = [count for count in counts if self._actors_per_task <= count < seen.wanted]
        return next((count for count in fewer if self._busiest(count, most) <= ROOM_WHEN_FEWER), None)

    def _recent_maximum(self) -> dict[TaskId, float]:
        return {task: max(demands[task] for _, demands in self._demands) for task in self._placement}


def _catch_up(loads: list[TaskLoad]) -> float | None:
    """Returns how long one actor with these needs until it has no lag; None when it never gets there."""
    work_s = sum(load.lag * load.cost_s for load in loads)
    spare = 1 - sum(load.arrivals * load.cost_s for load in loads)
    return 0.0 if not work_s else work_s / spare if spare > 0 else None


def _actors(count: int) -> str:
    return counted(count, "actor")


def _trouble(now: ActorCount, lag: int) -> str:
    if now.catch_up_s is None:
        return f"the busiest actor never catches up (lag {lag:,} in all)"
    return f"the busiest actor would need {now.catch_up_s:.0f} s to catch up (lag {lag:,} in all)"


def _catching_up(count: ActorCount) -> str:
    return "it would still never catch up" if count.catch_up_s is None else f"it would need {count.catch_up_s:.0f} s"


def _enough(now: ActorCount) -> str:
    if now.catch_up_s:
        return f"{_actors(now.actors)} catch up within {now.catch_up_s:.0f} s"
    return f"{_actors(now.actors)} keep up, the busiest is busy {now.busiest:.0%}"
