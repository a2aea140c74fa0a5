"""The placement of standbys on actors."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.placement.standby_assignor import Place, assign_standbys
from penstock.common.ids import TaskId

TASKS = [TaskId(0, number) for number in range(24)]


def on(*nodes: str) -> dict[str, Place]:
    """Returns an actor on each of these nodes."""
    return {f"stream/{number}": Place(node) for number, node in enumerate(nodes, 1)}


def test_a_standby_is_on_another_node_than_the_active_task() -> None:
    places = on("a", "a", "b")
    active = {TASKS[0]: "stream/1", TASKS[1]: "stream/3"}
    assert assign_standbys(active, 1, places, {}) == {TASKS[0]: ("stream/3",), TASKS[1]: ("stream/1",)}


def test_on_a_single_node_a_standby_is_on_another_actor() -> None:
    assert assign_standbys({TASKS[0]: "stream/1"}, 1, on("a", "a"), {}) == {TASKS[0]: ("stream/2",)}


def test_with_a_single_actor_there_is_no_standby() -> None:
    assert assign_standbys({TASKS[0]: "stream/1"}, 2, on("a"), {}) == {TASKS[0]: ()}


def test_nodes_in_another_zone_go_first() -> None:
    places = {"here": Place("a", ("west",)), "near": Place("b", ("west",)), "far": Place("c", ("east",))}
    assert assign_standbys({TASKS[0]: "here"}, 1, places, {}) == {TASKS[0]: ("far",)}
    assert assign_standbys({TASKS[0]: "here"}, 2, places, {}) == {TASKS[0]: ("far", "near")}


def test_a_standby_stays_on_its_actor() -> None:
    places = on("a", "b", "c")
    assert assign_standbys({TASKS[0]: "stream/1"}, 1, places, {TASKS[0]: ["stream/3"]}) == {TASKS[0]: ("stream/3",)}


def test_24_tasks_on_4_nodes_with_2_standbys_are_spread_evenly() -> None:
    places = on("a", "b", "c", "d")
    active = {task: f"stream/{number % 4 + 1}" for number, task in enumerate(TASKS)}
    standbys = assign_standbys(active, 2, places, {})
    assert all(len({active[task], *names}) == 3 for task, names in standbys.items())
    load = Counter(name for names in standbys.values() for name in names)
    assert max(load.values()) - min(load.values()) <= 2


def loads(standbys: dict[TaskId, tuple[str, ...]], places: dict[str, Place]) -> list[int]:
    count = Counter(name for names in standbys.values() for name in names)
    return sorted((count[name] for name in places), reverse=True)


def test_8_tasks_on_3_nodes_are_spread_evenly_though_two_nodes_had_all_standbys() -> None:
    places = on("a", "b", "c")
    active = {task: f"stream/{number % 3 + 1}" for number, task in enumerate(TASKS[:8])}
    current = {task: ["stream/1" if number in (1, 4, 7, 5) else "stream/2"] for number, task in enumerate(active)}
    assert not any(active[task] in names for task, names in current.items())
    standbys = assign_standbys(active, 1, places, current)
    assert loads(standbys, places) == [3, 3, 2]
    assert sum(list(standbys[task]) != current[task] for task in standbys) == 2, "no more move than must"
    both = {task: {*names, *current[task]} for task, names in standbys.items()}
    assert assign_standbys(active, 1, places, both) == standbys, "while the old standbys are kept, too"
    assert assign_standbys(active, 1, places, standbys) == standbys


def test_a_standby_moves_on_to_make_room_for_another() -> None:
    """The standbys of the tasks in the west may only be on the one actor in the middle, or in the east."""
    places = {"w": Place("w", ("1",)), "m": Place("m", ("2",)), "e": Place("e", ("3",)), "x": Place("x", ("2",))}
    active = {TASKS[0]: "x", TASKS[1]: "w", TASKS[2]: "w", TASKS[3]: "x"}
    current = {TASKS[0]: ["w"], TASKS[1]: ["e"], TASKS[2]: ["e"], TASKS[3]: ["w"]}
    assert loads(assign_standbys(active, 1, places, current), places) == [1, 1, 1, 1]


@given(
    st.lists(st.sampled_from("abcd"), min_size=2, max_size=8),
    st.integers(1, 3),
    st.lists(st.lists(st.integers(0, 7), max_size=3), min_size=len(TASKS), max_size=len(TASKS)),
    st.lists(st.integers(0, 7), min_size=len(TASKS), max_size=len(TASKS)),
)
def test_standbys_are_spread_from_any_placement_and_then_stay(
    nodes: list[str], replicas: int, before: list[list[int]], hosts: list[int]
) -> None:
    places = on(*nodes)
    names = sorted(places)
    active = {task: names[host % len(names)] for task, host in zip(TASKS, hosts, strict=True)}
    current = {task: {names[it % len(names)] for it in at} for task, at in zip(TASKS, before, strict=True)}
    standbys = assign_standbys(active, replicas, places, current)
    for task, chosen in standbys.items():
        assert active[task] not in chosen
        assert len(set(chosen)) == len(chosen) == min(replicas, len(places) - 1)
    if len(set(nodes)) == len(nodes) and set(active.values()) == set(names) and replicas == 1 and len(nodes) > 2:
        most = max(Counter(active.values()).values())
        spread = loads(standbys, places)
        assert spread[0] - spread[-1] <= 1 or most > len(TASKS) // 2
    assert assign_standbys(active, replicas, places, standbys) == standbys


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=8), st.integers(1, 3))
def test_no_two_standbys_are_on_one_actor_and_nothing_moves_when_asked_again(nodes: list[str], replicas: int) -> None:
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
