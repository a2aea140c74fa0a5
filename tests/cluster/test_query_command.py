"""``penstock query`` of windows, sessions and versions: real stores and the real read side, without Ray and Kafka."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from penstock.cli import query as command
from penstock.cluster.queries.queries import StateQueries
from penstock.common.errors import ConfigError, TaskNotReadyError
from penstock.common.ids import TaskId
from tests.actors.rig import APPLICATION
from tests.cluster.local_application import LocalApplication
from tests.cluster.test_store_questions import application as application

BASE = 1_700_000_000_000


def printed(capsys: pytest.CaptureFixture[str], store: str, as_json: bool = False, **asked: Any) -> list[str]:
    question = command.answer(StateQueries(APPLICATION), store, command.Asked(**asked), as_json)
    assert asyncio.run(question)
    return capsys.readouterr().out.splitlines()


def test_windows_are_lines_of_key_start_end_and_value(
    application: LocalApplication, capsys: pytest.CaptureFixture[str]
) -> None:
    for key, value, at in (("a", "x", 1000), ("a", "y", 6000), ("b", "z", 1000)):
        application.write("in", key, value, BASE + at)
    application.settle()
    of_a = [
        "a\t2023-11-14T22:13:15.000Z\t2023-11-14T22:13:25.000Z\tx",
        "a\t2023-11-14T22:13:20.000Z\t2023-11-14T22:13:30.000Z\txy",
        "a\t2023-11-14T22:13:25.000Z\t2023-11-14T22:13:35.000Z\ty",
    ]
    assert printed(capsys, "windows", key="a") == of_a
    assert printed(capsys, "windows", key="a", reverse=True) == of_a[::-1]
    assert printed(capsys, "windows", key="a", time_from="2023-11-14T22:13:20Z", time_to=str(BASE)) == of_a[1:2]
    assert len(printed(capsys, "windows")) == 5
    assert len(printed(capsys, "windows", from_key="b")) == 2
    row = json.loads(printed(capsys, "windows", as_json=True, key="a", time_to=str(BASE - 1))[0])
    assert (row["key"], row["value"], row["window"]["end_time"]) == ("a", "x", "2023-11-14T22:13:25.000Z")


def test_sessions_are_lines_of_key_start_end_and_value(
    application: LocalApplication, capsys: pytest.CaptureFixture[str]
) -> None:
    for value, at in (("x", 0), ("y", 1500), ("z", 9000)):
        application.write("in", "a", value, BASE + at)
    application.settle()
    lines = printed(capsys, "sessions", key="a")
    assert lines == [
        "a\t2023-11-14T22:13:20.000Z\t2023-11-14T22:13:21.500Z\txy",
        "a\t2023-11-14T22:13:29.000Z\t2023-11-14T22:13:29.000Z\tz",
    ]
    assert printed(capsys, "sessions") == lines
    assert printed(capsys, "sessions", time_from=str(BASE + 1501)) == lines[1:]


def test_a_version_is_its_value_and_history_lines_of_from_until_and_value(
    application: LocalApplication, capsys: pytest.CaptureFixture[str]
) -> None:
    for value, at in (("1", 0), ("2", 1000)):
        application.write("prices", "a", value, BASE + at)
    application.settle()
    assert printed(capsys, "versions", key="a") == ["2"]
    assert printed(capsys, "versions", key="a", as_of=str(BASE + 999)) == ["1"]
    assert printed(capsys, "versions", key="a", history=True) == [
        "2023-11-14T22:13:20.000Z\t2023-11-14T22:13:21.000Z\t1",
        "2023-11-14T22:13:21.000Z\t\t2",
    ]
    assert not asyncio.run(command.answer(StateQueries(APPLICATION), "versions", command.Asked("nobody")))


def test_a_range_goes_backwards_and_by_prefix(
    application: LocalApplication, capsys: pytest.CaptureFixture[str]
) -> None:
    for key in ("a", "ab", "b"):
        application.write("in", key, key.upper(), BASE)
    application.settle()
    assert printed(capsys, "all", reverse=True) == ["b\tB", "ab\tAB", "a\tA"]
    assert printed(capsys, "all", prefix="a") == ["a\tA", "ab\tAB"]


@pytest.mark.parametrize(
    ("store", "asked", "message"),
    [
        ("all", {"time_from": "1"}, "'all' is a timestamped key-value store, which does not take --time-from"),
        ("all", {"key": "a", "history": True}, "does not take --history"),
        ("windows", {"prefix": "a"}, "'windows' is a timestamped window store, which does not take --prefix"),
        ("windows", {"as_of": "1"}, "does not take --as-of"),
        ("windows", {"time_from": "noon"}, "--time-from noon: Input should be ms since 1970, or a time"),
        ("windows", {"from_key": "b", "to_key": "a"}, "--from b comes after --to a"),
        ("sessions", {"history": True}, "'sessions' is a session store, which does not take --history"),
        ("versions", {}, "'versions' is a versioned store: give the KEY whose versions are meant"),
        ("versions", {"from_key": "a"}, "does not take --from"),
        ("versions", {"key": "a", "time_from": "1"}, "does not take --time-from like this: 'penstock query -h' shows"),
    ],
)
def test_options_that_do_not_apply_to_a_store_are_refused_with_its_kind(
    application: LocalApplication, store: str, asked: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        asyncio.run(command.answer(StateQueries(APPLICATION), store, command.Asked(**asked)))
    assert message in str(refused.value)


def test_a_standby_answers_for_a_moving_task_if_stale_answers_are_allowed_and_the_answer_is_marked(
    application: LocalApplication, capsys: pytest.CaptureFixture[str]
) -> None:
    application.write("in", "a", "A", BASE)
    application.settle()
    assert printed(capsys, "all", key="a", stale=True) == ["A"]
    assert capsys.readouterr().err == "", "the tasks themselves have answered"
    whole = application._metadata()
    standbys: dict[TaskId, tuple[str, ...]] = {task: (name,) for task, name in whole.placement.items()}
    moving = replace(whole, placement={}, standbys=standbys)
    application.metadata._function = lambda: moving
    with pytest.raises(TaskNotReadyError):
        printed(capsys, "all", key="a")
    for key, line in (("a", "A"), (None, "a\tA")):
        asked = command.Asked(key, stale=True)
        assert asyncio.run(command.answer(StateQueries(APPLICATION), "all", asked))
        message = capsys.readouterr()
        assert message.out.splitlines() == [line]
        assert message.err == "answered by a standby or a restoring task: the newest updates may be missing\n"
