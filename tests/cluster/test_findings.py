"""The sentence that says what is wrong with an application, or that all is well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from penstock.actors.status import ActorStatus, TaskState, TaskStatus
from penstock.cluster.findings import Level, findings, share_of
from penstock.cluster.read_side import (
    ActorCount,
    ApplicationState,
    ApplicationStatus,
    Rollout,
    RolloutPhase,
    ScalingStatus,
    StuckTask,
)
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.metric_names import NODE, TASK, THREAD


def task(number: int, lag: int = 0, behind_s: float | None = 0.0, busy: float = 0.1, **more: Any) -> TaskStatus:
    measured: Any = {(TASK, "process-ratio"): busy, (TASK, "process-rate"): 1000.0, **more.pop("measured", {})}
    state = more.pop("state", TaskState.RUNNING)
    lags = {TopicPartition("in", number): lag}
    return TaskStatus(TaskId(0, number), state, lags=lags, behind_s=behind_s, measured=measured, **more)


def actor(name: str, *tasks: TaskStatus, busy: float = 0.2, **more: Any) -> ActorStatus:
    measured: Mapping[Any, float] = {
        (THREAD, "process-ratio"): busy, (THREAD, "poll-ratio"): 0.0, **more.pop("measured", {})
    }  # fmt: skip
    return ActorStatus(name, "node", 1, 1, tasks, measured=dict(measured), **more)


def application(*actors: ActorStatus, **more: Any) -> ApplicationStatus:
    placement = {each.task_id: it.actor_id for it in actors for each in it.tasks}
    status = ApplicationStatus("app", ApplicationState.RUNNING, 1, actors, placement)
    return replace(status, **more)


def sentences(status: ApplicationStatus) -> list[str]:
    return [each.sentence for each in findings(status)]


def first(status: ApplicationStatus) -> tuple[Level, str]:
    found = findings(status)[0]
    return found.level, found.sentence


def test_without_a_fault_the_only_finding_is_that_all_is_well() -> None:
    status = application(actor("one", task(0), task(1), busy=0.34), actor("two", task(2, lag=3, behind_s=0.31)))
    well = "All is well: 3 tasks on 2 actors, at most 0.3 s behind, the busiest actor is busy 34%"
    assert first(status) == (Level.OK, well)
    assert "no records wait" in first(application(actor("one", task(0))))[1]


def test_a_task_is_behind_because_its_actor_has_too_much_to_do() -> None:
    late = actor("stream-3", task(0, 40_000, 41.2, busy=0.6), task(1, 9_000, 12.0, busy=0.38), busy=0.98)
    status = application(late, actor("stream-4", task(2)))
    expected = "2 of 3 tasks are behind by up to 41 s: stream-3 is busy 98% with 2 tasks: more actors would share them"
    assert first(status) == (Level.WARNING, expected)
    advice = ScalingStatus(2, 3, "", False, 1, 3, (ActorCount(3, 1, 0.6, 5.0),))
    assert first(replace(status, scaling=advice))[1].endswith(
        "'penstock scale app 3' spreads them, if the Ray cluster has free CPUs"
    )
    scaled = replace(status, scaling=replace(advice, wanted=3))
    assert first(scaled)[1].endswith("with 2 tasks: 1 actor more will share them, but has not started yet")


@pytest.mark.parametrize(
    ("late", "why"),
    [
        (actor("one", task(0, 5, 20.0, busy=0.97), busy=0.97), "with task 0_0 alone: only more partitions"),
        (actor("one", task(0, 5, 20.0), measured={(THREAD, "commit-ratio"): 0.4}), "wait for commits 40% of the time"),
        (actor("one", task(0, 5, 20.0), waits=True), "is busy only 20%: waits for a broker"),
        (actor("one", task(0, 5, 20.0)), "is busy only 20%: its broker delivers slowly"),
        (
            actor(
                "one",
                task(0, 5, 20.0, measured={(NODE, "calls-in-flight", "ask"): 2, (NODE, "calls-waiting", "ask"): 3}),
            ),
            "is busy only 20%: 5 records wait for calls of ask",
        ),
        (
            actor(
                "one",
                task(
                    0, 5, 20.0, measured={(NODE, "calls-in-flight", "ask"): 1, (NODE, "calls-breaker-state", "ask"): 2}
                ),
            ),
            "the circuit breaker of ask is open, because its calls fail",
        ),
        (
            actor(
                "one", task(0, 5, 20.0, measured={(NODE, "calls-in-flight", "ask"): 0, (NODE, "calls-total", "ask"): 9})
            ),
            "is busy only 20%: its broker delivers slowly",
        ),
        (replace(actor("one", task(0, 5, 20.0)), measured={}), "task 0_0 on one has 5 records to read"),
    ],
)
def test_the_sentence_names_the_reason_for_which_a_task_is_behind(late: ActorStatus, why: str) -> None:
    level, sentence = first(application(late))
    assert (level, sentence.startswith("1 of 1 task is behind by 20 s: ")) == (Level.WARNING, True)
    assert why in sentence


def test_a_fault_is_named_before_a_task_that_is_behind() -> None:
    late = actor("one", task(0, 5, 20.0))
    status = application(late, unhosted={TaskId(0, 1): "there is no stream actor"}, waiting="no broker answers")
    assert sentences(status)[:2] == [
        "No broker answers", "1 of 2 tasks lacks an actor (0_1): there is no stream actor"
    ]  # fmt: skip
    assert findings(status)[-1].level is Level.WARNING


def test_tasks_of_a_silent_actor_are_not_judged() -> None:
    status = application(actor("one", task(0, 5, 99.0)), silent=frozenset({"one"}), waiting="one is unresponsive")
    assert sentences(status) == ["One is unresponsive"]


@pytest.mark.parametrize(
    ("rates", "left"), [((100.0, 50.0), ", about 20 s"), ((100.0, 0.0), "")], ids=["known", "not known of one"]
)
def test_a_restore_is_named_with_the_time_that_is_left(rates: tuple[float, float], left: str) -> None:
    restoring = [
        task(number, state=TaskState.RESTORING, behind_s=None, restore_remaining=1000, restore_rate=rate)
        for number, rate in enumerate(rates)
    ]
    status = application(actor("one", *restoring, task(2)))
    assert first(status) == (Level.WARNING, f"2 of 3 tasks restore: 2,000 records to go{left}")


@pytest.mark.parametrize(
    ("changes", "level", "said"),
    [
        ({"state": ApplicationState.ERROR, "error": "boom"}, Level.FAULT, "has ended with an error: boom"),
        ({"state": ApplicationState.PENDING_ERROR}, Level.FAULT, "ends with an error: no cause was reported"),
        ({"state": ApplicationState.NOT_RUNNING}, Level.WARNING, "The application has stopped"),
        ({"state": ApplicationState.PENDING_SHUTDOWN, "waiting": "a broker"}, Level.WARNING, "stops: its actors"),
        ({"state": ApplicationState.REBALANCING}, Level.WARNING, "The application is REBALANCING"),
        ({"paused": True}, Level.WARNING, "paused: 'penstock resume app' continues"),
        (
            {"stuck": (StuckTask(TaskId(0, 0), "one", "in", 0, 17, 5, 301.6),)},
            Level.FAULT,
            "Task 0_0 on one has processed nothing for 302 s",
        ),
        (
            {"rollout": Rollout(1, 1, 2, RolloutPhase.ROLLED_BACK, "it failed")},
            Level.WARNING,
            "Version 2 was rolled back to version 1: it failed",
        ),
        ({"rollout": Rollout(2, 1, 2, RolloutPhase.MOVING)}, Level.WARNING, "is being rolled out: moving"),
    ],
)
def test_each_condition_has_its_sentence(changes: dict[str, Any], level: Level, said: str) -> None:
    found = first(application(actor("one", task(0)), **changes))
    assert found[0] is level
    assert said in found[1]


@pytest.mark.parametrize(
    ("one", "level", "said"),
    [
        (actor("one", task(0), error="disk full"), Level.FAULT, "Actor one has failed: disk full"),
        (actor("one", task(0), without_lease=True), Level.FAULT, "one has stopped processing: its lease"),
        (actor("one", task(0, parted=(("in", "other"),))), Level.FAULT, "Results are missing: different partitioners"),
        (actor("one", task(0, checkpoint_error="no bucket")), Level.WARNING, "cannot store its checkpoints: no bucket"),
        (
            actor("one", task(0, dropped_records=12, measured={(TASK, "dropped-records-rate"): 2.5})),
            Level.WARNING,
            "Records are dropped, 2.5 per second: task 0_0 has dropped 12",
        ),
    ],
)
def test_each_condition_of_an_actor_has_its_sentence(one: ActorStatus, level: Level, said: str) -> None:
    found = first(application(one))
    assert found[0] is level
    assert said in found[1]


def test_a_cluster_without_tasks_says_that_others_have_them() -> None:
    assert "other clusters have them all" in first(application(actor("one")))[1]


def test_the_share_of_an_actor_is_that_of_all_its_work_and_not_more_than_all_of_the_time() -> None:
    measured = {(THREAD, "commit-ratio"): 0.25, (THREAD, "punctuate-ratio"): 0.25}
    assert share_of(actor("one", busy=0.25, measured=measured)) == 0.75
    assert share_of(actor("one", busy=0.9, measured=measured)) == 1.0
    assert share_of(replace(actor("one"), measured={})) is None


# ---- what a finding is about ----


def slow(share: float, busy: float = 0.98) -> ApplicationStatus:
    def late(number: int) -> TaskStatus:
        return task(number, lag=9, behind_s=41.0, busy=busy / 2, measured={(NODE, "busy-ratio", "enrich"): share / 2})

    return application(actor("stream/3", late(0), late(1), busy=busy), actor("stream/1", task(2)))


def test_the_operator_that_takes_the_time_of_an_actor_is_named() -> None:
    (found,) = findings(slow(0.97))
    assert found.sentence.startswith(
        "2 of 3 tasks are behind by up to 41 s: stream/3 is busy 98% in enrich with 2 tasks"
    )
    assert (found.view, found.subject, found.about) == ("topology", "enrich", "behind")
    (found,) = findings(slow(0.6))
    assert "stream/3 is busy 98%, 60% of its time in enrich, with 2 tasks: more actors" in found.sentence


def test_an_operator_that_takes_less_than_half_of_the_time_is_not_blamed() -> None:
    (found,) = findings(slow(0.4))
    assert "stream/3 is busy 98% with 2 tasks" in found.sentence
    assert (found.view, found.subject) == ("tasks", "0_0")


@pytest.mark.parametrize(
    ("status", "about", "view", "subject"),
    [
        (application(actor("one", error="boom")), "failed one", "tasks", "one"),
        (application(actor("one", without_lease=True)), "without lease one", "tasks", "one"),
        (application(unhosted={TaskId(0, 1): "no CPU"}), "unhosted 0_1", "tasks", "0_1"),
        (application(unhosted={TaskId(0, 1): "no CPU", TaskId(0, 2): "no CPU"}), "unhosted 0_1", "tasks", None),
        (application(stuck=(StuckTask(TaskId(0, 2), "one", "in", 2, 7, 3, 60.0),)), "stuck 0_2", "tasks", "0_2"),
        (application(waiting="no broker answers"), "waiting", "overview", None),
        (application(actor("one", task(0, parted=(("a", "b"),)))), "parted ('a', 'b')", "topology", "a"),
        (application(actor("one", task(0, checkpoint_error="disk"))), "checkpoints", "tasks", "0_0"),
        (application(rollout=Rollout(phase=RolloutPhase.MOVING, last=2)), "rollout 2", "rollout", None),
        (application(actor("one", task(0))), "well", "overview", None),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
def test_a_finding_leads_to_what_it_is_about(
    status: ApplicationStatus, about: str, view: str, subject: str | None
) -> None:
    found = findings(status)[0]
    assert (found.about, found.view, found.subject) == (about, view, subject)


def test_a_pause_comes_before_the_delay_that_it_causes() -> None:
    late = application(actor("one", task(0, 40_000, 41.2), busy=0.0), paused=True)
    assert [each.about for each in findings(late)] == ["paused", "behind"]


def test_each_finding_holds_since_the_time_that_the_coordinator_has_noted() -> None:
    status = application(actor("one", task(0)), paused=True, since={"paused": 5000, "well": 1000})
    assert [(each.about, each.since_ms) for each in findings(status)] == [("paused", 5000)]
    assert findings(replace(status, since={}))[0].since_ms is None
