"""The reasons to refuse a rolling upgrade, and the report on one that is under way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import typer

import penstock as ps
from penstock.actors.status import ActorStatus, TaskState, TaskStatus
from penstock.api.status import application_body
from penstock.cli import deploy as deploying_command
from penstock.cli.deploy import follow
from penstock.cli.rolling import Progress, obstacles, rollout_lines
from penstock.cluster.programs.deploy_plan import plan_deploy
from penstock.cluster.programs.description import Description
from penstock.cluster.rollout import Rollout, RolloutPhase
from penstock.cluster.status import ApplicationState, ApplicationStatus
from penstock.common.errors import ApplicationStateError
from penstock.common.ids import TaskId
from tests.cluster.test_deploy_plan import by_key, described, users, words

TASKS = (TaskId(0, 0), TaskId(0, 1))


def found(old: Description, new: Description) -> list[str]:
    return obstacles(plan_deploy(old, new), old, new)


def louder(builder: ps.StreamsBuilder) -> None:
    """Counts the words as ``words`` does, by other functions and to one more topic."""
    text = ps.Serdes.string()
    split = builder.stream("lines", ps.Consumed.with_(text, text)).flat_map_values(str.split).map_values(str.upper)
    grouped = split.group_by(lambda _, word: word, ps.Grouped.with_(text, text))
    counts = grouped.count(ps.Materialized.as_("counts")).to_stream()
    counts.to("out", ps.Produced.with_(text, ps.Serdes.long()))
    counts.to("loud", ps.Produced.with_(text, ps.Serdes.long()))


def test_other_functions_and_other_output_topics_do_not_prevent_a_roll_out() -> None:
    assert found(described(words()), described(louder)) == []


def test_a_store_in_memory_may_stay_one() -> None:
    in_memory: Any = ps.Materialized.as_(ps.Stores.in_memory_key_value_store("counts"))
    stored: Any = lambda builder: builder.stream("lines").group_by_key().count(in_memory)  # noqa: E731
    assert found(described(stored), described(stored)) == []


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        (words(), words("other"), "store counts: orphaned"),
        (words(), words("other"), "changelog topic a-other-changelog: new"),
        (by_key("counts"), by_key("counts", "others"), "input topic others: new"),
        (by_key("counts"), users(), "store users: new"),
    ],
)
def test_everything_that_the_plan_does_not_keep_is_named(old: Any, new: Any, reported: str) -> None:
    assert any(line.startswith(reported) for line in found(described(old), described(new)))


def test_a_sub_topology_that_is_added_is_named() -> None:
    lines = found(described(words()), described(words(), users()))
    assert "tasks - -> 2_*: new" in lines or any(line.startswith("tasks -") for line in lines)


def actor(name: str, generation: int, *tasks: TaskId) -> ActorStatus:
    states = tuple(TaskStatus(task, TaskState.RUNNING) for task in tasks)
    return ActorStatus(name, "node", 1, 1, states, generation=generation)


def status(phase: RolloutPhase, *actors: ActorStatus, **fields: Any) -> ApplicationStatus:
    placement = {task.task_id: each.actor_id for each in actors for task in each.tasks}
    rollout = Rollout(2, 1, 2, phase, watch_s=60.0)
    if phase in (RolloutPhase.ROLLING_BACK, RolloutPhase.ROLLED_BACK):
        rollout = replace(rollout, generation=1, reason="ValueError: bad")
    elif phase is RolloutPhase.DONE:
        rollout = replace(rollout, proven=2)
    return ApplicationStatus("app", ApplicationState.RUNNING, 1, actors, placement, rollout=rollout, **fields)


STARTING = status(RolloutPhase.STARTING, actor("stream/1", 1, *TASKS))
MOVING = status(RolloutPhase.MOVING, actor("stream/1", 1, TASKS[1]), actor("stream/2", 2, TASKS[0]))
WATCHING = status(RolloutPhase.WATCHING, actor("stream/2", 2, *TASKS))
DONE = status(RolloutPhase.DONE, actor("stream/2", 2, *TASKS))
ROLLING_BACK = status(RolloutPhase.ROLLING_BACK, actor("stream/1", 1, TASKS[1]), actor("stream/2", 2, TASKS[0]))
ROLLED_BACK = status(RolloutPhase.ROLLED_BACK, actor("stream/1", 1, *TASKS))


def test_each_task_is_reported_once_with_the_actors_it_moves_between() -> None:
    progress = Progress()
    lines = [line for each in (STARTING, STARTING, MOVING, MOVING, WATCHING, DONE) for line in progress.lines(each)]
    assert lines == [
        (
            "stream actors of the new version start; if no CPU is free for them within 10 s, the old actors are "
            "stopped one by one"
        ),
        "task 0_0: stream/1 -> stream/2, 1 of 2 tasks run the new version",
        "task 0_1: stream/1 -> stream/2, 2 of 2 tasks run the new version",
        "all 2 tasks run the new version; watching it for 60 s",
    ]


def test_a_changed_wait_reason_is_reported() -> None:
    progress = Progress()
    waiting = replace(STARTING, waiting="stream/1 makes room")
    lines = [line for each in (STARTING, waiting, waiting, MOVING) for line in progress.lines(each)]
    assert lines.count("stream/1 makes room") == 1


def test_a_roll_back_is_reported_with_its_reason() -> None:
    progress = Progress()
    lines = [line for each in (WATCHING, ROLLING_BACK, ROLLED_BACK) for line in progress.lines(each)]
    assert "the new version failed, and is rolled back: ValueError: bad" in lines


def test_the_command_ends_when_the_version_is_proven(capsys: pytest.CaptureFixture[str]) -> None:
    follow("app", 2, iter([STARTING, MOVING, WATCHING, DONE]))
    assert capsys.readouterr().out.splitlines()[-1].startswith("app: version 2 runs every task")


def test_the_command_ends_in_a_cluster_without_tasks_once_the_new_version_is_in_place(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rebalancing = replace(status(RolloutPhase.WATCHING), state=ApplicationState.REBALANCING)
    follow("app", 2, iter([status(RolloutPhase.STARTING), rebalancing, status(RolloutPhase.WATCHING)]))
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith(
        "app: version 2 has replaced the old one, but the group gives no task to this Ray cluster"
    )
    assert not any("all 0 tasks" in line for line in lines)


def counting(state: ApplicationStatus, processed: int, dropped: int) -> ApplicationStatus:
    """Returns ``state`` with these numbers of records for the first task of each actor."""
    actors = [
        replace(each, tasks=(replace(each.tasks[0], records_processed=processed, dropped_records=dropped),))
        for each in state.actors
    ]
    return replace(state, actors=tuple(actors))


@pytest.mark.parametrize(
    ("processed", "dropped", "reported"),
    [
        (0, 0, "processed 0 records and dropped 0"),
        (1, 0, "processed 1 record and dropped 0"),
        (2000, 1999, "processed 2,000 records and dropped 1,999"),
    ],
)
def test_the_last_line_reports_what_the_new_version_has_processed_and_dropped(
    processed: int, dropped: int, reported: str, capsys: pytest.CaptureFixture[str]
) -> None:
    follow("app", 2, iter([counting(STARTING, 70, 7), WATCHING, counting(DONE, processed, dropped)]))
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"app: version 2 runs every task; since it began it has {reported}"


def test_a_task_that_returns_to_its_last_commit_on_its_actor_does_not_count_down(
    capsys: pytest.CaptureFixture[str],
) -> None:
    follow("app", 2, iter([counting(WATCHING, 50, 3), counting(WATCHING, 2, 1), counting(DONE, 4, 1)]))
    tasks = len([each for each in DONE.actors if each.generation == 2])
    assert capsys.readouterr().out.splitlines()[-1].endswith(f"processed {54 * tasks} records and dropped {4 * tasks}")


def test_dropped_records_are_shown_in_yellow(monkeypatch: pytest.MonkeyPatch) -> None:
    styled: list[Any] = []
    monkeypatch.setattr(typer, "secho", lambda line, fg: styled.append(fg))
    follow("app", 2, iter([counting(DONE, 2, 1)]))
    follow("app", 2, iter([counting(DONE, 2, 0)]))
    assert styled == ["yellow", None]


def test_an_actor_that_is_gone_counts_for_what_it_had_processed(capsys: pytest.CaptureFixture[str]) -> None:
    follow(
        "app",
        2,
        iter([counting(WATCHING, 5, 1), counting(status(RolloutPhase.DONE, actor("stream/3", 2, *TASKS)), 2, 0)]),
    )
    assert "processed 7 records and dropped 1" in capsys.readouterr().out


def test_a_traceback_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    failed = [
        replace(each, rollout=replace(each.rollout, reason="ValueError: bad\nTraceback: line 7"))
        for each in (ROLLING_BACK, ROLLED_BACK)
    ]
    with pytest.raises(ApplicationStateError, match="ValueError: bad\nTraceback: line 7"):
        follow("app", 2, iter(failed))
    out = capsys.readouterr().out
    assert "rolled back: ValueError: bad" in out
    assert "Traceback" not in out


def test_ctrl_c_before_anything_is_sent_reports_that_nothing_was_deployed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(deploying_command, "load_application", interrupted)
    with pytest.raises(KeyboardInterrupt):
        deploying_command.deploy("program:app")
    assert capsys.readouterr().err == "Interrupted: nothing was deployed\n"


def statuses(*those: ApplicationStatus) -> Iterator[ApplicationStatus]:
    return iter(those)


def test_the_command_fails_with_the_reason_of_a_roll_back() -> None:
    with pytest.raises(ApplicationStateError, match=r"version 2 .* rolled back; version 1 runs .* ValueError: bad"):
        follow("app", 2, statuses(STARTING, ROLLING_BACK, ROLLED_BACK))


def test_the_command_fails_when_the_application_ends_or_another_version_is_deployed() -> None:
    stopped = replace(MOVING, state=ApplicationState.NOT_RUNNING)
    with pytest.raises(ApplicationStateError, match="ended during the roll-out in state NOT_RUNNING: it was stopped"):
        follow("app", 2, statuses(MOVING, stopped))
    with pytest.raises(ApplicationStateError, match="version 2 made way for version 3"):
        follow("app", 2, statuses(replace(MOVING, rollout=Rollout(3, 1, 3, RolloutPhase.STARTING))))


def test_a_coordinator_that_has_not_begun_again_is_waited_for() -> None:
    restarted = ApplicationStatus("app", ApplicationState.CREATED, 0, (), {})
    follow("app", 2, statuses(MOVING, restarted, WATCHING, DONE))


def test_the_status_shows_a_roll_out_until_it_has_ended_well() -> None:
    assert rollout_lines(MOVING) == ["version 2: moving, 1 of 2 tasks run it"]
    assert rollout_lines(ROLLING_BACK) == [
        "version 2 is rolled back to version 1, 1 of 2 tasks run it: ValueError: bad"
    ]
    assert rollout_lines(ROLLED_BACK) == ["version 2 was rolled back to version 1: ValueError: bad"]
    assert rollout_lines(DONE) == []


def test_json_has_the_roll_out_and_the_version_of_each_actor() -> None:
    body = application_body(MOVING)
    assert body["rollout"] == {
        "generation": 2, "proven": 1, "last": 2, "phase": "moving", "reason": "", "watch_s": 60.0,
    }  # fmt: skip
    assert [each["generation"] for each in body["actors"]] == [1, 2]
