"""Where standbys go."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.standby_assignor import Place, assign_standbys
from penstock.common.ids import TaskId

TASKS = [TaskId(0, number) for number in range(24)]


def on(*nodes: str) -> dict[str, Place]:
    """An actor on each of these nodes."""
    return {f"stream/{number}": Place(node) for number, node in enumerate(nodes, 1)}


def test_a_standby_is_on_another_node_than_the_active_task() -> None:
    places = on("a", "a", "b")
    active = {TASKS[0]: "stream/1", TASKS[1]: "stream/3"}
    assert assign_standbys(active, 1, places, {}) == {TASKS[0]: ("stream/3",), TASKS[1]: ("stream/1",)}


def test_where_there_is_one_node_it_is_on_another_actor() -> None:
    assert assign_standbys({TASKS[0]: "stream/1"}, 1, on("a", "a"), {}) == {TASKS[0]: ("stream/2",)}


def test_where_there_is_one_actor_there_is_none() -> None:
    assert assign_standbys({TASKS[0]: "stream/1"}, 2, on("a"), {}) == {TASKS[0]: ()}


def test_nodes_in_another_zone_go_first() -> None:
    places = {"here": Place("a", ("west",)), "near": Place("b", ("west",)), "far": Place("c", ("east",))}
    assert assign_standbys({TASKS[0]: "here"}, 1, places, {}) == {TASKS[0]: ("far",)}
    assert assign_standbys({TASKS[0]: "here"}, 2, places, {}) == {TASKS[0]: ("far", "near")}


def test_what_is_somewhere_stays_there() -> None:
    places = on("a", "b", "c")
    assert assign_standbys({TASKS[0]: "stream/1"}, 1, places, {TASKS[0]: ["stream/3"]}) == {TASKS[0]: ("stream/3",)}


def test_24_tasks_on_4_nodes_with_2_standbys_are_spread_evenly() -> None:
    places = on("a", "b", "c", "d")
    active = {task: f"stream/{number % 4 + 1}" for number, task in enumerate(TASKS)}
    standbys = assign_standbys(active, 2, places, {})
    assert all(len({active[task], *names}) == 3 for task, names in standbys.items())
    load = Counter(name for names in standbys.values() for name in names)
    assert max(load.values()) - min(load.values()) <= 2


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=8), st.integers(1, 3))
def test_no_two_copies_are_on_one_actor_and_nothing_moves_when_asked_again(nodes: list[str], replicas: int) -> None:
    places = on(*nodes)
    names = sorted(places)
    active = {task: names[number % len(names)] for number, task in enumerate(TASKS)}
    standbys = assign_standbys(active, replicas, places, {})
    for task, chosen in standbys.items():
        assert active[task] not in chosen
        assert len(set(chosen)) == len(chosen) == min(replicas, len(places) - 1)
        others = {places[name].node for name in names} - {places[active[task]].node}
        assert len({places[name].node for name in chosen} & others) == min(replicas, len(others))
    assert assign_standbys(active, replicas, places, standbys) == standbys
