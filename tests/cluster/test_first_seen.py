"""The times since which findings hold, as a coordinator has seen them."""

from __future__ import annotations

from penstock.cluster.coordinator.coordinator import Coordinator
from penstock.cluster.findings import Finding, Level, findings
from penstock.cluster.history.first_seen import GONE_MS, MOST, UNKNOWN_MS, FirstSeen
from penstock.cluster.history.history import History
from penstock.cluster.status import ApplicationStatus
from penstock.common.ids import TaskId
from tests.cluster.restarted_coordinator import PLAN
from tests.cluster.test_findings import actor, application, task


def found(*abouts: str) -> list[Finding]:
    return [Finding(Level.WARNING, f"{about} now", about) for about in abouts]


def test_a_finding_holds_since_it_was_first_seen() -> None:
    seen = FirstSeen(1000, restarted=False)
    assert seen.look(found("a"), 1000) == {"a": 1000}, "nothing was there before"
    assert seen.look(found("a", "b"), 2000) == {"a": 1000, "b": 2000}
    assert seen.look(found("b"), 3000) == {"b": 2000}
    later = 3000 + GONE_MS + 1
    assert seen.look(found("b"), later) == {"b": 2000}
    assert seen.look(found("a", "b"), later + 1) == {"a": later + 1, "b": 2000}, "it was gone meanwhile"


def test_a_finding_that_is_gone_for_a_moment_holds_on() -> None:
    seen = FirstSeen(0, restarted=False)
    seen.look(found("a"), 1000)
    seen.look(found(), 2000)
    seen.look(found(), 2000 + GONE_MS - 1)
    assert seen.look(found("a"), 2000 + GONE_MS) == {"a": 1000}


def test_a_finding_that_is_gone_while_another_one_holds_is_remembered_and_one_that_is_gone_for_long_is_not() -> None:
    seen = FirstSeen(0, restarted=False)
    seen.look(found("a", "b"), 1000)
    seen.look(found("b"), 2000)
    assert seen.look(found("a", "b"), 3000) == {"a": 1000, "b": 1000}
    seen.look(found("b"), 4000)
    late = 4000 + GONE_MS + 1
    assert seen.look(found("a", "b"), late) == {"a": late, "b": 1000}, "without a look in between"


def test_time_without_a_look_does_not_end_a_finding() -> None:
    seen = FirstSeen(0, restarted=False)
    seen.look(found("a"), 1000)
    assert seen.look(found("a"), 900_000) == {"a": 1000}


def test_after_a_restart_a_finding_may_be_older_until_actors_have_reported() -> None:
    seen = FirstSeen(0, restarted=True)
    assert seen.look(found("a"), 0) == {"a": None}
    assert seen.look(found("a", "b"), UNKNOWN_MS - 1) == {"a": None, "b": None}
    assert seen.look(found("a", "b", "c"), UNKNOWN_MS) == {"a": None, "b": None, "c": UNKNOWN_MS}


def test_the_memory_of_findings_is_bounded() -> None:
    seen = FirstSeen(0, restarted=False)
    for begin in range(0, 50_000, 5000):
        assert len(seen.look(found(*map(str, range(begin, begin + 5000))), begin)) == MOST
        assert len(seen._seen) <= 2 * MOST
    assert seen.look(found("a"), 60_000) == {"a": 60_000}


def test_each_task_without_an_actor_keeps_its_time_though_the_reason_changes() -> None:
    waits = application(unhosted={TaskId(0, 0): "one is starting", TaskId(0, 1): "two is starting"})
    first, second = findings(waits)
    (other,) = findings(application(unhosted={TaskId(0, 0): "there is no stream actor"}))
    assert first.about == other.about != second.about


def test_the_history_notes_findings_whether_a_page_is_open_or_not() -> None:
    now = 1000

    def behind(by_s: float) -> ApplicationStatus:
        return application(actor("one", task(0, lag=5, behind_s=by_s), busy=0.97))

    history = History(Coordinator(PLAN, None, first_epoch=1), lambda: now, restarted=False)
    history.since(application(actor("one", task(0))))
    now = 2000
    history.since(behind(20.0))
    now = 90_000
    assert history.since(behind(99.0)) == {"behind": 2000}, "though its figures change"
