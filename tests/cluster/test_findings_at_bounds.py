"""Findings at the bounds of their conditions, and whole sentences where a part would not tell reasons apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.actors.status import ActorStatus, TaskState
from penstock.cluster.findings import BEHIND_S, Level, findings
from penstock.cluster.read_side import ActorCount, ApplicationState, ApplicationStatus, ScalingStatus
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.metric_names import NODE, TASK
from tests.cluster.test_findings import actor, application, task


def sentence(status: ApplicationStatus) -> str:
    return findings(status)[0].sentence


def behind(one: ActorStatus) -> str:
    """Returns the reason for which its first task is behind."""
    return sentence(application(one)).partition(": ")[2]


def test_a_task_counts_as_behind_from_ten_seconds_on_and_only_with_records_to_read() -> None:
    late = application(actor("one", task(0, 5, BEHIND_S)))
    assert findings(late)[0].about == "behind"
    assert findings(application(actor("one", task(0, 5, BEHIND_S - 0.1))))[0].level is Level.OK
    assert findings(application(actor("one", task(0, 0, 99.0))))[0].level is Level.OK


def test_shares_of_time_that_cover_a_pause_blame_nobody() -> None:
    waiting = application(actor("one", task(0, 5, 20.0), waits=True), has_just_resumed=True)
    assert sentence(waiting).endswith(
        "by 20 s: the application was paused until a moment ago, and task 0_0 on one has 5 records to read"
    )
    busy = application(actor("one", task(0, 5, 20.0, busy=0.97), busy=0.97), has_just_resumed=True)
    assert "with task 0_0 alone" in sentence(busy)


def test_an_actor_with_time_left_waits_for_what_its_state_and_its_inputs_suggest() -> None:
    late = task(0, 5, 20.0)
    two_inputs = replace(late, lags={TopicPartition("in", 0): 5, TopicPartition("other", 0): 0})
    waits = "one, which has task 0_0, is busy only 20%: "
    assert behind(actor("one", late, waits=True)) == f"{waits}waits for a broker, the coordinator or stores"
    assert behind(actor("one", late)) == f"{waits}its broker delivers slowly, or it has only begun"
    slow = "its broker delivers slowly, or it waits for records of another input"
    assert behind(actor("one", two_inputs)) == f"{waits}{slow}"


def test_a_task_that_fills_its_actor_is_alone_with_others_and_the_only_task_whatever_it_has_measured() -> None:
    alone = "one is busy 97% with task 0_0 alone: only more partitions, or less work, help it"
    assert behind(actor("one", task(0, 5, 20.0, busy=0.9), task(1, busy=0.05), busy=0.97)) == alone
    assert behind(actor("one", task(0, 5, 20.0, busy=0.4), busy=0.97)) == alone
    shared = "one is busy 97% with 2 tasks: more actors would share them"
    assert behind(actor("one", task(0, 5, 20.0, busy=0.89), task(1, busy=0.05), busy=0.97)) == shared


def test_an_actor_counts_as_busy_from_ninety_percent_on() -> None:
    def with_operator(busy: float) -> ApplicationStatus:
        late = task(0, 5, 20.0, busy=busy, measured={(NODE, "busy-ratio", "enrich"): busy})
        return application(actor("one", late, busy=busy))

    assert findings(with_operator(0.9))[0].subject == "enrich"
    assert findings(with_operator(0.89))[0].subject == "0_0"


def test_the_share_of_an_operator_is_named_if_it_is_not_that_of_the_actor() -> None:
    def late(share: float) -> ActorStatus:
        return actor("one", task(0, 5, 20.0, busy=0.98, measured={(NODE, "busy-ratio", "enrich"): share}), busy=0.98)

    assert behind(late(0.97)).startswith("one is busy 98% in enrich with task 0_0 alone")
    assert behind(late(0.9)).startswith("one is busy 98%, 90% of its time in enrich, with task 0_0 alone")


def test_of_several_operators_with_calls_the_one_for_which_most_records_wait_is_named() -> None:
    calls = {(NODE, "calls-waiting", "ask"): 3, (NODE, "calls-waiting", "look-up"): 40}
    assert "40 records wait for calls of look-up" in behind(actor("one", task(0, 5, 20.0, measured=calls)))


def test_a_number_of_actors_that_are_there_already_is_no_advice() -> None:
    late = actor("one", task(0, 5, 20.0, busy=0.5), task(1, busy=0.4), busy=0.97)
    advice = ScalingStatus(1, 1, "", False, 1, 3, (ActorCount(1, 1, 0.6, 5.0),))
    assert sentence(replace(application(late), scaling=advice)).endswith("with 2 tasks: more actors would share them")


def test_a_restore_that_is_about_to_begin_has_no_time_and_the_slowest_is_led_to() -> None:
    def restoring(number: int, remaining: int, rate: float) -> ActorStatus:
        found = task(number, state=TaskState.RESTORING, behind_s=None, restore_remaining=remaining, restore_rate=rate)
        return actor(f"stream/{number}", found)

    found = findings(application(restoring(0, 0, 0.0), restoring(1, 1000, 100.0), restoring(2, 900, 30.0)))[0]
    assert found.sentence == "3 of 3 tasks restore: 1,900 records to go, about 30 s"
    assert found.subject == "0_2"
    assert sentence(application(restoring(0, 0, 0.0))) == "1 of 1 task restores: about to begin"


def test_records_are_dropped_by_several_tasks() -> None:
    def dropping(number: int, rate: float, dropped: int) -> ActorStatus:
        measured = {(TASK, "dropped-records-rate"): rate}
        return actor(f"stream/{number}", task(number, dropped_records=dropped, measured=measured))

    found = findings(application(dropping(0, 0.5, 900), dropping(1, 2.0, 7), dropping(2, 0.0, 9_999)))[0]
    assert found.sentence == (
        "Records are dropped, 2.5 per second: task 0_1 has dropped 7 so far; the log names them"
    )  # fmt: skip
    assert found.subject == "0_1"


def test_an_application_is_well_although_the_delay_of_a_task_is_not_known() -> None:
    known = sentence(application(actor("one", task(0), task(1, behind_s=None))))
    assert known.startswith("All is well: 2 tasks on 1 actor, no records wait")


@pytest.mark.parametrize(
    ("status", "whole"),
    [
        (application(state=ApplicationState.NOT_RUNNING), "The application has stopped"),
        (
            application(state=ApplicationState.NOT_RUNNING, error="boom"),
            "The application has stopped; it had ended with: boom",
        ),
        (
            application(state=ApplicationState.PENDING_SHUTDOWN),
            "The application stops: its actors process and commit what they have",
        ),
        (
            application(state=ApplicationState.PENDING_SHUTDOWN, waiting="no broker"),
            "The application stops: its actors process and commit what they have: no broker",
        ),
        (
            application(actor("one"), actor("two", error="boom"), state=ApplicationState.ERROR),
            "The application has ended with an error: boom",
        ),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
def test_an_end_has_its_whole_sentence(status: ApplicationStatus, whole: str) -> None:
    assert sentence(status) == whole


@pytest.mark.parametrize(("count", "ends"), [(5, "0_4): it starts"), (6, "0_4 …): it starts")])
def test_no_more_than_five_tasks_without_an_actor_are_named(count: int, ends: str) -> None:
    assert sentence(application(unhosted={TaskId(0, number): "it starts" for number in range(count)})).endswith(ends)
