"""What a user is told whose stream actors have no CPU."""

from __future__ import annotations

from penstock.cluster.cpus import waiting_for_cpus

NAMES = [
    "penstock/mine/coordinator",
    "penstock/mine/stream/1",
    "penstock/word-count/coordinator",
    "penstock/word-count/http",
    "penstock/word-count/stream/1",
    "penstock/word-count/stream/4",
    "penstock/joins/stream/2",
    "something/else/stream/1",
]


def test_who_holds_the_cpus_is_named_with_what_to_do() -> None:
    told = waiting_for_cpus("mine", 1, 2, 0.0, NAMES)
    assert told is not None
    assert "1 stream actor waits for a free CPU: the Ray cluster has 2, all taken" in told
    assert "'joins' (1), 'word-count' (2)" in told
    assert "tasks.per.actor" in told
    assert "'mine'" not in told


def test_other_ray_jobs_may_hold_them_too() -> None:
    told = waiting_for_cpus("mine", 2, 4, 0.5, ["penstock/mine/stream/1", "penstock/mine/stream/2"])
    assert told is not None
    assert "2 stream actors wait" in told
    assert "other Ray jobs" in told


def test_nobody_waits_while_a_cpu_is_free_or_every_actor_is_up() -> None:
    assert waiting_for_cpus("mine", 2, 4, 1.0, NAMES) is None
    assert waiting_for_cpus("mine", 0, 4, 0.0, NAMES) is None
