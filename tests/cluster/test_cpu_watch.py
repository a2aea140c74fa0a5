"""Notices to a user whose stream actors have no CPU."""

from __future__ import annotations

from structlog.testing import capture_logs

from penstock.cluster.scaling.cpu_watch import START_S, CpuUsage, CpuWatch, waiting_for_cpus

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


def test_the_application_that_holds_the_cpus_is_named_with_what_to_do() -> None:
    reason = waiting_for_cpus("mine", 1, CpuUsage(2, 0.0, NAMES))
    assert reason is not None
    assert "1 stream actor waits for a free CPU: the Ray cluster has 2, all taken" in reason
    assert "'joins' (1), 'word-count' (2)" in reason
    assert "give each its share by max.stream.actors or tasks.per.actor" in reason
    assert "'penstock scale word-count 1' frees 1 of them" in reason
    assert "'mine'" not in reason


def test_an_application_is_asked_for_no_more_than_all_but_one_of_its_actors() -> None:
    names = [f"penstock/orders/stream/{number}" for number in range(1, 5)]
    assert "'penstock scale orders 2' frees 2 of them" in str(waiting_for_cpus("mine", 2, CpuUsage(4, 0.0, names)))
    assert "'penstock scale orders 1' frees 3 of them" in str(waiting_for_cpus("mine", 9, CpuUsage(4, 0.0, names)))
    assert "penstock scale" not in str(waiting_for_cpus("mine", 1, CpuUsage(1, 0.0, names[:1])))


def test_other_ray_jobs_may_hold_them_too() -> None:
    reason = waiting_for_cpus("mine", 2, CpuUsage(4, 0.5, ["penstock/mine/stream/1", "penstock/mine/stream/2"]))
    assert reason is not None
    assert "2 stream actors wait" in reason
    assert "other Ray jobs" in reason


def test_nobody_waits_while_a_cpu_is_free() -> None:
    assert waiting_for_cpus("mine", 2, CpuUsage(4, 1.0, NAMES)) is None


class Cluster:
    """A Ray cluster of two CPUs, all taken, and a clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.questions = 0
        self.watch = CpuWatch("mine", self.usage, lambda: self.now)

    def usage(self) -> CpuUsage:
        self.questions += 1
        return CpuUsage(2, 0.0, NAMES)


def test_an_actor_that_has_begun_to_start_only_recently_is_not_reported_as_waiting() -> None:
    cluster = Cluster()
    assert cluster.watch.check(["stream/1"]) is None
    cluster.now += START_S - 1
    assert cluster.watch.check(["stream/1", "stream/2"]) is None
    assert cluster.questions == 0, "Ray is not asked before somebody is late"
    cluster.now += 1
    assert "1 stream actor waits" in (cluster.watch.check(["stream/1", "stream/2"]) or "")


def test_an_actor_that_came_up_meanwhile_begins_again() -> None:
    cluster = Cluster()
    cluster.watch.check(["stream/1"])
    cluster.now += START_S
    assert cluster.watch.check([]) is None
    assert cluster.watch.check(["stream/1"]) is None


def test_the_same_reason_is_logged_once() -> None:
    cluster = Cluster()
    cluster.watch.check(["stream/1"])
    with capture_logs() as lines:
        for _ in range(3):
            cluster.now += START_S
            cluster.watch.check(["stream/1"])
    assert [line["event"] for line in lines] == ["waiting for CPUs"]


def test_the_actors_that_wait_are_counted() -> None:
    cluster = Cluster()
    cluster.watch.check(["stream/1", "stream/2"])
    assert cluster.watch.waiting == 0
    cluster.now += START_S
    cluster.watch.check(["stream/1", "stream/2", "stream/3"])
    assert cluster.watch.waiting == 2
    cluster.watch.check([])
    assert cluster.watch.waiting == 0
