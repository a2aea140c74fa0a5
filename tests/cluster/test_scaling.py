"""The advised number of stream actors, for traces that read as stories. Each second of a story is one look."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from penstock.cluster.placement.assignor import assign
from penstock.cluster.scaling.load import TaskLoad
from penstock.cluster.scaling.scaling import (
    BARRED_WINDOWS,
    DOWN_WINDOWS,
    Advice,
    Scaling,
    Situation,
    even_counts,
)
from penstock.common.ids import TaskId
from tests.tiers import sampled

WINDOW_S = 10.0


@dataclass
class Application:
    """Actors that process as fast as they can, and a coordinator that follows the advice.

    ``cost_s`` is the time that a record takes an actor; ``sink_rate``, if any, limits what they all send together.
    """

    tasks: int = 12
    actors: int = 2
    minimum: int = 1
    maximum: int | None = None
    actors_per_task: int = 1
    cost_s: float = 0.001
    sink_rate: float | None = None
    places: int = 100
    """Number of actors for which there is a CPU."""
    move_s: int = 3
    now_s: float = 0.0
    restoring: bool = False
    arrivals: dict[int, float] = field(default_factory=dict)
    message: list[tuple[float, int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lags = [0.0] * self.tasks
        self.names = [f"stream/{number + 1}" for number in range(self.actors)]
        self.placement: dict[TaskId, str] = {}
        self._place()
        self.scaling = Scaling(self.minimum, self.maximum, WINDOW_S, frozenset(), self.actors_per_task)
        self._measured_since = self.now_s

    def _place(self) -> None:
        up = self.names[: self.places]
        placement = assign([TaskId(0, number) for number in range(self.tasks)], up, self.placement)
        if placement != self.placement:
            self.placement = placement
            self._measured_since = self.now_s + self.move_s

    def comes(self, rate: float | Mapping[int, float]) -> None:
        """Sets the records that come per second: in total, shared equally by all tasks, or for each task."""
        each = rate if isinstance(rate, Mapping) else dict.fromkeys(range(self.tasks), rate / self.tasks)
        self.arrivals = dict(each)

    def _second(self) -> dict[int, float]:
        """Returns the number of records that each task processes in this second."""
        done: dict[int, float] = {}
        for actor in set(self.placement.values()):
            mine = [task.partition for task, name in self.placement.items() if name == actor]
            there = {task: self.lags[task] + self.arrivals.get(task, 0.0) for task in mine}
            able = 1 / self.cost_now
            share = min(1.0, able / sum(there.values())) if sum(there.values()) else 0.0
            done |= {task: records * share for task, records in there.items()}
        for task, records in done.items():
            self.lags[task] += self.arrivals.get(task, 0.0) - records
        return done

    @property
    def cost_now(self) -> float:
        """Seconds that a record takes an actor now: waiting for the sink counts."""
        if self.sink_rate is None:
            return self.cost_s
        return max(self.cost_s, len(set(self.placement.values())) / self.sink_rate)

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Lets time pass; the number of actors follows each advice at once."""
        end_s = self.now_s + seconds
        while self.now_s < end_s and not until():
            self.now_s += 1
            done = self._second()
            advice = self.look(done)
            if advice.actors != len(self.names):
                self.message.append((self.now_s, advice.actors, advice.reason))
                self._become(advice.actors)

    def _become(self, actors: int) -> None:
        fresh = int(self.names[-1].removeprefix("stream/"))
        while len(self.names) < actors:
            fresh += 1
            self.names.append(f"stream/{fresh}")
        del self.names[actors:]
        self._place()

    def look(self, done: Mapping[int, float]) -> Advice:
        """Takes one look; ``last`` keeps its advice."""
        loads = None
        if not self.restoring and self.now_s - self._measured_since >= WINDOW_S:
            loads = {
                task: TaskLoad(
                    actor,
                    self.arrivals.get(task.partition, 0.0),
                    done[task.partition],
                    round(self.lags[task.partition]),
                    self.cost_now,
                )
                for task, actor in self.placement.items()
            }
        if self.restoring:
            self._measured_since = self.now_s
        starting = max(0, len(self.names) - self.places)
        hindrance = "task 0_0 restores" if self.restoring else None
        self.last = self.scaling.look(Situation(self.now_s, len(self.names), self.tasks, loads, starting, hindrance))
        return self.last

    @property
    def changes(self) -> list[int]:
        """Every number of actors that was advised, one after the other."""
        return [actors for _, actors, _ in self.message]


@pytest.mark.parametrize(
    ("tasks", "minimum", "maximum", "counts"),
    [
        (16, 1, None, [1, 2, 3, 4, 6, 8, 16]),
        (12, 1, 8, [1, 2, 3, 4, 6]),
        (12, 2, 3, [2, 3]),
        (16, 9, 12, [9]),  # none of them is better than the smallest
        (3, 5, 8, [3]),  # never more than tasks
        (1, 1, None, [1]),
        (200, 1, 10, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
    ],
)
def test_only_numbers_of_actors_that_use_the_partitions_evenly(
    tasks: int, minimum: int, maximum: int | None, counts: list[int]
) -> None:
    assert even_counts(tasks, minimum, maximum) == counts


def test_under_steady_load_that_fits_nothing_ever_changes() -> None:
    app = Application(actors=2)
    app.comes(1600)  # of 2000
    app.run(3600)
    assert app.changes == []
    assert app.last.reason == "2 actors keep up, the busiest is busy 80%"


def test_a_burst_that_is_worked_off_in_time_is_left_alone_however_large_its_lag() -> None:
    app = Application(actors=2)
    app.comes(1000)
    app.run(300)
    app.lags = [1500.0] * app.tasks  # 18,000 records, and 1000 records/s to spare: 18 s
    app.run(300)
    assert app.changes == []
    assert sum(app.lags) == 0


def test_the_same_lag_is_too_much_where_little_capacity_is_left_to_work_it_off() -> None:
    app = Application(actors=2)
    app.comes(1900)
    app.run(300)
    app.lags = [1500.0] * app.tasks  # with 100 records/s to spare: 180 s
    app.run(WINDOW_S)
    ((_, actors, reason),) = app.message
    assert actors == 3
    assert reason == (
        "the busiest actor would need 179 s to catch up (lag 17,904 in all); with 3 actors it would need 16 s"
    )


def test_load_that_grows_gets_actors_and_when_it_is_gone_for_long_they_go() -> None:
    app = Application(actors=1)
    app.comes(500)
    app.run(60)
    app.comes(3500)
    app.run(300)
    assert app.changes == [4]
    assert sum(app.lags) == 0
    calm_since = app.now_s
    app.comes(500)
    app.run(600)
    (gone_s, actors, reason) = app.message[1]
    assert actors == 1
    assert gone_s - calm_since >= DOWN_WINDOWS * WINDOW_S
    assert reason == "1 actor would be enough: the busiest would be busy 50% at most"
    assert app.changes == [4, 1]


def test_a_load_that_comes_and_goes_within_the_time_that_fewer_actors_take_does_not_move_tasks_to_and_fro() -> None:
    app = Application(actors=3)
    for _ in range(30):
        app.comes(2700)
        app.run(20)
        app.comes(100)
        app.run(20)
    assert app.changes == []


def test_a_sink_that_is_too_slow_gets_one_try_that_is_undone_and_not_repeated_for_long() -> None:
    app = Application(actors=2, sink_rate=1500.0)
    app.comes(1800)
    app.run(WINDOW_S * (BARRED_WINDOWS - 2))
    assert app.changes[1:] == [2], app.message
    tried_s, undone_s = app.message[0][0], app.message[1][0]
    assert undone_s - tried_s >= WINDOW_S
    assert (
        app.message[1][2]
        == f"more actors did not help: {app.changes[0]} actors processed 1,500 records/s, 2 before 1,500"
    )
    assert "which is not tried again for" in app.last.reason
    app.run(WINDOW_S * 10)
    assert len(app.changes) > 2, "later it is tried again: the sink may be faster by then"


def test_while_a_task_restores_nothing_is_decided_and_what_was_before_does_not_count() -> None:
    app = Application(actors=2)
    app.comes(1000)
    app.run(60)
    app.comes(5000)
    app.restoring = True
    app.run(120)
    assert app.changes == []
    assert app.last.reason == "task 0_0 restores"
    app.restoring = False
    app.run(WINDOW_S - 1)
    assert app.changes == []
    assert app.last.reason == "not measured for long enough yet"
    app.run(WINDOW_S)
    assert len(app.changes) == 1


def test_a_partition_that_is_too_hot_by_itself_gets_an_actor_for_itself_at_most() -> None:
    app = Application(actors=12)
    app.comes({0: 1300.0} | dict.fromkeys(range(1, 12), 10.0))
    app.run(120)
    assert app.changes == []
    assert "no more actors are allowed" in app.last.reason
    app = Application(actors=4)
    app.comes({0: 5000.0} | dict.fromkeys(range(1, 12), 1.0))
    app.run(120)
    assert app.changes == []
    assert "more actors would not help: task 0_0 alone needs" in app.last.reason


def test_neighbours_of_a_hot_partition_are_taken_from_its_actor() -> None:
    app = Application(actors=2)
    app.comes({0: 600.0} | dict.fromkeys(range(1, 12), 100.0))
    app.run(WINDOW_S + app.move_s)
    assert len(app.changes) == 1
    app.run(300)
    assert len(app.changes) == 1
    assert sum(app.lags) == 0


def test_neither_more_than_the_maximum_nor_fewer_than_the_minimum() -> None:
    app = Application(actors=3, minimum=2, maximum=4)
    app.comes(9000)
    app.run(300)
    assert app.changes == [4]
    assert "no more actors are allowed" in app.last.reason
    app.comes(0)
    app.run(2000)
    assert app.changes[-1] == 2


def test_actors_that_find_no_cpu_stay_wanted_while_they_are_needed_and_no_more_are_asked_for_meanwhile() -> None:
    app = Application(actors=2, places=2)
    app.comes(3500)
    app.run(40)
    (wanted,) = app.changes
    app.run(400)
    assert app.changes == [wanted]
    assert f"of {wanted} not up yet" in app.last.reason
    app.places = 100  # a node has come
    app._place()
    app.run(600, until=lambda: not any(app.lags))
    assert not any(app.lags)


def test_actors_that_find_no_cpu_are_given_up_when_they_are_needed_no_more() -> None:
    app = Application(actors=2, places=2)
    app.comes(3500)
    app.run(40)
    app.comes(300)
    app.run(600)
    assert app.changes[-1] == 1


def test_with_nothing_to_do_at_all_the_minimum_is_enough() -> None:
    app = Application(actors=6, minimum=2)
    app.run(DOWN_WINDOWS * WINDOW_S + 2 * WINDOW_S)
    assert app.changes == [2]
    assert app.message[0][0] >= DOWN_WINDOWS * WINDOW_S, "so short a calm says nothing"


def test_nothing_is_decided_while_there_is_an_obstacle_whatever_is_measured() -> None:
    scaling = Scaling(1, None, WINDOW_S, frozenset())
    loads = {TaskId(0, number): TaskLoad("stream/1", 5000.0, 1000.0, 10**6, 0.001) for number in range(4)}
    why = "actors leave a node that is drained"
    assert scaling.look(Situation(100.0, 1, 4, loads, hindrance=why)) == Advice(1, why)
    assert scaling.look(Situation(101.0, 1, 4, loads)).actors == 4


def test_advice_comes_with_the_tasks_and_the_load_that_each_number_of_actors_would_have() -> None:
    app = Application(actors=2, maximum=6)
    app.comes(1500)
    app.run(60)
    assert [(it.actors, it.tasks_each) for it in app.last.counts] == [(1, 12), (2, 6), (3, 4), (4, 3), (6, 2)]
    assert [round(it.busiest, 2) for it in app.last.counts] == [1.5, 0.75, 0.5, 0.38, 0.25]


def test_a_number_that_somebody_else_has_chosen_is_no_try_of_ours() -> None:
    app = Application(actors=2, sink_rate=1500.0)
    app.comes(1800)
    app.run(600, until=lambda: bool(app.message))
    app._become(4)
    app.run(2 * WINDOW_S)
    assert not any("did not help" in reason for _, _, reason in app.message)


@pytest.mark.parametrize("seed", sampled(range(20), every=3))
def test_the_number_stays_within_its_bounds_and_settles_when_the_load_does(seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    tasks = rng.randint(1, 40)
    low = rng.randint(1, 4)
    app = Application(
        tasks, min(tasks, low), low, rng.choice([None, low, low + 3]), cost_s=rng.choice([1e-4, 1e-3, 1e-2])
    )
    for _ in range(20):
        total = rng.choice([0, 0.3, 0.9, 1.1, 3, 20]) / app.cost_s
        weights = [rng.random() ** rng.choice([0, 1, 8]) for _ in range(tasks)]
        app.comes({task: total * weight / sum(weights) for task, weight in enumerate(weights)})
        app.run(rng.randint(1, 200))
    allowed = even_counts(tasks, low, app.maximum)
    assert set(app.changes) <= set(allowed)
    app.comes(dict.fromkeys(range(tasks), 0.5 / app.cost_s / tasks))
    app.lags = [0.0] * tasks
    app.run(300)
    settled = len(app.changes)
    app.run(1000)
    assert len(app.changes) == settled, app.message
    assert len(app.names) == min(allowed)


@pytest.mark.parametrize("tasks", [1, 12])
def test_there_are_no_fewer_actors_than_a_task_and_its_standbys_need(tasks: int) -> None:
    app = Application(tasks=tasks, actors=3, actors_per_task=2)
    app.comes(1)
    app.run(2 * DOWN_WINDOWS * WINDOW_S)
    assert app.changes == ([] if tasks == 1 else [2])
