"""The assignor: balanced within one, nothing moves without need, stateful sub-topologies spread."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from penstock.cluster.placement.assignor import assign
from penstock.cluster.scaling.elasticity import wanted_actors
from penstock.common.ids import TaskId


def tasks_of(*counts: int) -> list[TaskId]:
    return [TaskId(sub, number) for sub, count in enumerate(counts) for number in range(count)]


def loads(placement: dict[TaskId, str], actors: list[str]) -> list[int]:
    counts = Counter(placement.values())
    return [counts[actor] for actor in actors]


@pytest.mark.parametrize(
    ("tasks", "per_actor", "cpus", "wanted"),
    [(0, None, 8, 0), (8, None, 2, 2), (3, None, 8, 3), (5, None, 0, 1), (8, 3, 2, 3), (8, 1, 2, 8), (0, 4, 2, 0)],
)
def test_number_of_actors_follows_tasks_per_actor_or_the_cpus(
    tasks: int, per_actor: int | None, cpus: int, wanted: int
) -> None:
    assert wanted_actors(tasks, per_actor, cpus) == wanted


def test_no_actor_no_placement() -> None:
    assert assign(tasks_of(3), [], {}) == {}


def test_stateful_subtopologies_are_spread_over_the_actors() -> None:
    placement = assign(tasks_of(4, 4), ["a", "b"], {}, stateful={1})
    for sub in (0, 1):
        assert Counter(actor for task, actor in placement.items() if task.subtopology == sub) == {"a": 2, "b": 2}


def test_a_new_actor_takes_only_its_share() -> None:
    before = assign(tasks_of(6), ["a", "b"], {})
    after = assign(tasks_of(6), ["a", "b", "c"], before)
    assert sum(before[task] != after[task] for task in before) == 2


def test_tasks_are_given_away_from_the_subtopology_that_an_actor_has_most_of() -> None:
    before = dict.fromkeys(tasks_of(4, 2), "a")
    after = assign(tasks_of(4, 2), ["a", "b"], before, stateful={0, 1})
    assert Counter(task.subtopology for task, actor in after.items() if actor == "b") in ({0: 2, 1: 1}, {0: 3})
    assert loads(after, ["a", "b"]) == [3, 3]


@pytest.mark.parametrize("seed", range(200))
def test_any_change_keeps_balance_and_moves_the_fewest_tasks(seed: int) -> None:
    rng = random.Random(seed)
    tasks = tasks_of(*(rng.randint(1, 6) for _ in range(rng.randint(1, 4))))
    before_actors = [f"a{n}" for n in range(rng.randint(1, 5))]
    before = assign(tasks, before_actors, {}, {0})
    stay = rng.sample(before_actors, rng.randint(0, len(before_actors)))
    actors = stay + [f"b{n}" for n in range(rng.randint(0 if stay else 1, 3))]
    after = assign(tasks, actors, before, {0})
    assert set(after) == set(tasks), seed
    counts = loads(after, actors)
    assert max(counts) - min(counts) <= 1, seed
    base, odd = divmod(len(tasks), len(actors))
    kept = sorted((loads(before, stay)), reverse=True)
    most = sum(min(count, base + (1 if place < odd else 0)) for place, count in enumerate(kept))
    assert sum(before[task] == after[task] for task in tasks) == most, seed
