"""``penstock top``: its figures, its frames, its keys; ``test_top_on_a_terminal.py`` plays it on a terminal."""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from penstock.api.slow_rows import slow_of
from penstock.api.top_rows import Top, top_of
from penstock.cli.main import app
from penstock.cli.top import Answer, Asking, Screen
from penstock.cli.top_frame import frame, plain
from penstock.cli.top_keys import Sort, View, keys_of, pressed
from penstock.cli.top_source import Heard, SilentError, StatusSource
from penstock.cluster.client import control
from penstock.cluster.findings import findings
from penstock.cluster.ray_cluster import connections
from penstock.cluster.read_side import ApplicationState, ApplicationStatus
from penstock.common.errors import ApplicationStateError
from tests.cli.top_status import FUNCTIONS, STATUS, talk_of_troubles, talk_once_and_die
from tests.cluster.test_findings import actor, application, task
from tests.waiting import PATIENCE_S

TOP = top_of(STATUS)


def drawn(view: View, width: int = 120, height: int = 30, top: Top | None = TOP, note: str = "") -> list[str]:
    lines = frame(top, view, width, height, note).lines
    assert len(lines) <= height
    assert all(line.cell_len <= width for line in lines)
    return [line.plain for line in lines]


def tasks_in(lines: list[str]) -> list[str]:
    return [line.split()[0] for line in lines if line.startswith(("0_", "1_", "2_"))]


def test_the_figures_of_each_task_and_actor_are_taken_from_the_status() -> None:
    rows = {str(row.task_id): row for row in TOP.tasks}
    assert (rows["0_0"].lag, rows["0_0"].behind_s, rows["0_0"].busy, rows["0_0"].records_per_s) == (
        500, 41.2, 0.6, 1000.0
    )  # fmt: skip
    assert [(each.actor_id, each.lag) for each in rows["0_0"].standbys] == [("two", 12)]
    restore = rows["0_3"].restore
    assert restore is not None
    assert (restore.share, restore.remaining, restore.seconds_left) == (0.7, 300, 12.0)
    assert (rows["0_4"].state, rows["0_4"].actor_id, rows["0_4"].lag) == ("waiting", None, None)
    one, two = TOP.actors
    assert (round(one.busy or 0, 3), one.commit_pause_p50_ms, one.commit_pause_max_ms, one.commits, one.tasks) == (
        0.95, 1.25, 30.5, 12, 2
    )  # fmt: skip
    assert two.standbys == 2
    assert (TOP.lag, TOP.lag_is_known, TOP.behind_s) == (507, False, 41.2)


def test_of_a_silent_actor_no_figure_is_shown() -> None:
    top = top_of(replace(STATUS, silent=frozenset({"one"})))
    assert {(row.state, row.lag, row.behind_s) for row in top.tasks if row.actor_id == "one"} == {
        ("silent", None, None)
    }
    assert (top.actors[0].state, top.actors[0].busy) == ("silent", None)


def test_the_first_line_shows_the_worst_finding_and_the_slowest_task_is_first() -> None:
    lines = drawn(View())
    assert lines[0] == "1 of 5 tasks lacks an actor (0_4): two is starting"
    assert lines[1] == "1 of 5 tasks restores: 300 records to go, about 12 s"
    assert lines[3].startswith("app  RUNNING · 5 tasks · 2 actors · lag 507 + ?, 41 s behind · http://127.0.0.1:8080")
    assert tasks_in(lines) == ["0_4", "0_3", "0_0", "0_1", "0_2"]
    assert "#######... 70%, 12 s left" in "\n".join(lines)
    assert "two (12 behind)" in "\n".join(lines)
    assert "1.2 ms  30.5 ms" in "\n".join(lines)


def test_a_finding_shows_since_when_it_holds() -> None:
    at = datetime(2026, 11, 28, 3, 2, 11)
    status = replace(STATUS, since={each.about: int(at.timestamp() * 1000) for each in findings(STATUS)})
    top = top_of(status)
    assert "(since 2026-11-28 03:02:11)" in " ".join(drawn(View(), 150, top=top)[:3])
    assert plain(top, slow_of(status, FUNCTIONS), 200)[0].plain.endswith("(since 2026-11-28 03:02:11)")
    assert "since" not in plain(TOP, slow_of(STATUS, FUNCTIONS), 200)[0].plain, "it is not known"


def test_a_note_replaces_the_first_line_because_the_old_one_may_not_hold() -> None:
    lines = drawn(View(), note="The coordinator has not answered since 17:03:12")
    assert lines[0] == "The coordinator has not answered since 17:03:12"
    assert "lacks an actor" not in "\n".join(lines)
    assert "app  RUNNING" in lines[1]


@pytest.mark.parametrize("height", [1, 2, 3, 5, 8, 12, 24, 60])
@pytest.mark.parametrize("width", [1, 10, 20, 40, 80, 200])
def test_a_frame_fits_any_window(width: int, height: int) -> None:
    many = top_of(replace(STATUS, actors=(*STATUS.actors, actor("three", *(task(n, n) for n in range(10, 90))))))
    for top in (TOP, many, None):
        for view in (View(), View(help=True), View(typing="x"), View(first=1_000_000)):
            drawn(view, width, height, top)


def test_a_small_window_shows_the_first_sentence_and_the_slowest_tasks() -> None:
    lines = drawn(View(), 30, 6)
    assert lines[0] == "1 of 5 tasks lacks an actor"
    assert lines[2].split() == ["TASK", "BEHIND", "LAG"]
    assert tasks_in(lines) == ["0_4", "0_3"]
    assert lines[-1].startswith("q quit")


def test_columns_are_left_out_from_the_least_important_on() -> None:
    headings = {
        width: next(line.split() for line in drawn(View(), width) if line.startswith("TASK"))
        for width in (120, 70, 50, 30)
    }
    assert headings[120] == ["TASK", "ACTOR", "STATE", "BEHIND", "LAG", "REC/S", "BUSY", "STANDBYS"]
    for width in (70, 50, 30):
        assert headings[width][0] == "TASK"
        assert "BEHIND" in headings[width]
        assert len(headings[width]) < len(headings[120])


@pytest.mark.parametrize(
    ("keys", "tasks"),
    [
        (b"t", ["0_0", "0_1", "0_2", "0_3", "0_4"]),
        (b"tt", ["0_4", "0_3", "0_2", "0_1", "0_0"]),
        (b"b", ["0_2", "0_1", "0_0", "0_3", "0_4"]),
        (b"l", ["0_0", "0_1", "0_3", "0_2", "0_4"]),
        (b"u", ["0_0", "0_3", "0_2", "0_1", "0_4"]),
        (b"/two\r", ["0_3", "0_0", "0_1", "0_2"]),
        (b"/RESTORING", ["0_3"]),
        (b"/two\x1b", ["0_4", "0_3", "0_0", "0_1", "0_2"]),
        (b"/twx\x7fo\r\x1b", ["0_4", "0_3", "0_0", "0_1", "0_2"]),
        (b"/nothing\r", []),
    ],
)
def test_keys_sort_and_filter(keys: bytes, tasks: list[str]) -> None:
    view = View()
    for key in keys_of(keys):
        view = pressed(view, key)
    assert tasks_in(drawn(view)) == tasks


def test_arrows_scroll_and_stop_at_both_ends() -> None:
    many = top_of(application(actor("one", *(task(number) for number in range(50)))))
    view = pressed(View(), "t")
    assert tasks_in(drawn(view, height=20, top=many))[0] == "0_0"
    for key in keys_of(b"\x1b[B\x1b[B\x1b[6~\x1b[A"):
        view = pressed(view, key)
    assert tasks_in(drawn(view, height=20, top=many))[0] == "0_11"
    screen = Screen()
    screen.take(answer(application(actor("one", *(task(number) for number in range(50)))), 0.0))
    for keys, first, last in (("t", 0, 11), ("end", 38, 49), ("up", 37, 48), ("home", 0, 11), ("up", 0, 11)):
        screen.view = pressed(screen.view, keys)
        seen = tasks_in(shown(screen, 0.0, height=20).splitlines())
        assert (seen[0], seen[-1]) == (f"0_{first}", f"0_{last}"), keys


def test_keys_are_told_from_each_other() -> None:
    assert list(keys_of(b"q\x1b[A\x1b[1;5Cp\x1b")) == ["q", "up", "p", "esc"]
    assert list(keys_of("ä\x1b[6~".encode())) == ["ä", "page down"]


def test_help_pause_and_quit() -> None:
    view = pressed(View(), "h")
    assert any(line.startswith("b t a s l r u") for line in drawn(view))
    assert pressed(view, "q") == View(), "any key closes the help"
    assert "PAUSED" in "\n".join(drawn(pressed(View(), "p")))
    assert pressed(pressed(View(), " "), "p").paused is False
    assert pressed(View(), "q").quit
    assert pressed(View(typing=""), "q") == View(typing="q"), "while a filter is typed, letters are text"
    assert pressed(View(), "x") == View()
    assert pressed(View(sort=Sort.LAG), "l").reverse


# ---- answers ----


def answer(status: ApplicationStatus, at_s: float) -> Answer:
    return Answer(Heard(status), at_s, datetime(2026, 11, 27, 17, 3, 12))


def shown(screen: Screen, now_s: float, height: int = 30) -> str:
    console = Console(width=120, color_system=None)
    with console.capture() as captured:
        console.print(screen.lines(120, height, now_s))
    return captured.get()


def test_the_first_line_shows_since_when_the_coordinator_does_not_answer() -> None:
    screen = Screen()
    screen.take(answer(STATUS, 10.0))
    assert "has not answered" not in shown(screen, 12.0)
    screen.take(replace(answer(STATUS, 10.0), problem="the coordinator is being restarted"))
    note = "The coordinator has not answered since 17:03:12 (41 s): the coordinator is being restarted."
    assert note in shown(screen, 51.0)
    screen.take(answer(STATUS, 52.0))
    assert "has not answered" not in shown(screen, 52.0)


def test_a_coordinator_that_has_never_answered_is_waited_for() -> None:
    screen = Screen()
    screen.take(Answer(None, 10.0, datetime(2026, 11, 27, 17, 3, 12)))
    assert "Asking the application's coordinator" in shown(screen, 11.0)
    assert "has not answered since 17:03:12 (20 s): no answer yet." in shown(screen, 30.0)


def test_rates_are_of_the_last_seconds_and_a_pause_keeps_all_figures() -> None:
    screen = Screen()
    one = application(actor("one", task(0, records_processed=100)))
    screen.take(answer(one, 10.0))
    screen.take(answer(application(actor("one", task(0, records_processed=5100))), 12.0))
    assert " 2,500 " in shown(screen, 12.0)
    screen.view = pressed(screen.view, "p")
    screen.take(answer(application(actor("one", task(0, records_processed=5100))), 14.0))
    assert " 2,500 " in shown(screen, 14.0)


def test_answers_are_taken_until_the_application_has_ended() -> None:
    heard = Heard(STATUS)
    outcomes: list[Any] = [heard, SilentError("ask again"), ApplicationStateError("it does not run")]

    def ask() -> Heard:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        assert isinstance(outcome, Heard)
        return outcome

    asking = Asking(ask, lambda: 7.0)
    seen = []
    for _ in range(3):
        asking.look()
        seen.append((asking.last.heard is heard, asking.last.problem, asking.last.gone))
    assert seen == [(True, None, False), (True, "ask again", False), (True, "it does not run", True)]
    ended = Asking(lambda: Heard(replace(STATUS, state=ApplicationState.NOT_RUNNING)))
    ended.look()
    assert ended.last.gone


# ---- the process that asks ----


def test_another_process_takes_the_place_of_one_that_ray_has_ended() -> None:
    with closing(StatusSource("app", talk_once_and_die)) as source:
        assert answered(source) == Heard(STATUS)
        with pytest.raises(SilentError, match="the connection to Ray is lost"):
            answered(source)
        assert answered(source) == Heard(STATUS)


def test_only_before_the_first_answer_an_application_that_is_not_found_is_an_error() -> None:
    with closing(StatusSource("app", talk_of_troubles)) as source:
        with pytest.raises(ApplicationStateError, match="no cluster") as raised:
            answered(source)
        assert not isinstance(raised.value, SilentError)
        assert answered(source) == Heard(STATUS)
        with pytest.raises(SilentError, match="restarting"):
            answered(source)
        with pytest.raises(ApplicationStateError, match="app"):
            answered(source)


def answered(source: StatusSource) -> Heard:
    """The next answer, however long the process takes to start."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return source()
        except SilentError as error:
            if str(error) or time.monotonic() > deadline:
                raise


# ---- the command ----


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "connect_to", lambda application_id: None)
    monkeypatch.setattr(control, "require_status", lambda application_id: STATUS)
    monkeypatch.setattr(control, "functions_of", lambda application_id: FUNCTIONS)


@pytest.mark.usefixtures("running")
def test_in_a_pipe_top_prints_everything_once() -> None:
    for options in ([], ["--once"]):
        done = CliRunner().invoke(app, ["top", "app", *options])
        assert done.exit_code == 0, done.output
        lines = done.stdout.splitlines()
        assert lines[0] == "1 of 5 tasks lacks an actor (0_4): two is starting"
        assert tasks_in(lines) == ["0_4", "0_3", "0_0", "0_1", "0_2"]
        assert "\x1b" not in done.stdout


@pytest.mark.usefixtures("running")
def test_json_is_one_document_with_the_slowest_task_first() -> None:
    done = CliRunner().invoke(app, ["top", "app", "--json"])
    body = json.loads(done.stdout)
    assert body["findings"][0] == {
        "level": "fault", "sentence": "1 of 5 tasks lacks an actor (0_4): two is starting",
        "since_ms": None, "view": "tasks", "subject": "0_4",
    }  # fmt: skip
    assert [each["task_id"] for each in body["tasks"]] == ["0_4", "0_3", "0_0", "0_1", "0_2"]
    assert body["tasks"][1]["restore"] == {"restored": 700, "remaining": 300, "seconds_left": 12.0}
    assert body["actors"][0]["commit_pause_max_ms"] == 30.5
    assert (body["lag"], body["lag_is_known"], body["behind_s"]) == (507, False, 41.2)


def test_everything_is_in_a_snapshot_however_narrow_the_window_is() -> None:
    assert len(plain(TOP, slow_of(STATUS, FUNCTIONS), 30)) == 27
