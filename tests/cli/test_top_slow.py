"""``penstock top``: the view of why an application is slow."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from penstock.api.slow_rows import Slow, slow_of
from penstock.api.top_rows import top_of
from penstock.cli.main import app
from penstock.cli.top_frame import frame, plain
from penstock.cli.top_keys import Sort, View, keys_of, pressed
from penstock.cluster.client import control
from penstock.cluster.ray_cluster import connections
from penstock.cluster.read_side import ApplicationStatus, FunctionView
from penstock.common.metric_names import NODE, THREAD
from tests.cli.top_status import FUNCTIONS, STATUS
from tests.cluster.test_findings import actor, application, task

SLOW = View(slow=True)


def drawn(
    view: View = SLOW, width: int = 160, height: int = 40, status: ApplicationStatus = STATUS, slow: Slow | None = None
) -> list[str]:
    lines = frame(top_of(status), view, width, height, slow=slow or slow_of(status, FUNCTIONS)).lines
    assert len(lines) <= height
    assert all(line.cell_len <= width for line in lines)
    return [line.plain for line in lines]


def rows_of(lines: list[str], heading: str) -> list[list[str]]:
    """The words of the table under ``heading``, which is in its first line, line by line."""
    at = next(number for number, line in enumerate(lines) if heading in line)
    end = next(
        (number for number, line in enumerate(lines[at:], at) if not line.strip() or line.startswith("q quit")),
        len(lines),
    )
    return [line.split() for line in lines[at:end]]


def crowd(count: int) -> ApplicationStatus:
    operators = {(NODE, "busy-ratio", f"KSTREAM-MAPVALUES-{number:010}"): number / 100 for number in range(1, 41)}
    busy = [
        actor(f"stream/{number}", task(number, measured=operators), busy=number / count, measured={
            (THREAD, "gc-total"): number, (THREAD, "idle-ratio"): 1 - number / count
        })
        for number in range(count)
    ]  # fmt: skip
    return application(*busy)


def test_the_busiest_operator_is_first_with_its_function_file_and_line() -> None:
    heading, *rows = rows_of(drawn(), "OPERATOR")
    assert heading == ["OPERATOR", "FUNCTION", "BUSY", "ALL", "ACTORS", "REC/S", "CALLS", "IN", "FLIGHT"]
    assert rows == [
        ["enrich", "enrich", "program.py:12", "75%", "75%", "1,200", "-"],
        ["ask", "-", "5%", "5%", "?", "7"],
    ], "an operator that takes no time is left out"


def test_the_shares_of_the_time_of_actors_have_the_names_of_the_page() -> None:
    heading, one, two = rows_of(drawn(), "PROCESS")
    assert heading == ["ACTOR", "BUSY", "PROCESS", "POLL", "COMMIT", "BROKER", "WAIT", "IDLE", "GC"]
    assert one == ["one", "95%", "93%", "0%", "2%", "3%", "0%", "1%"]
    assert two == ["two", "20%", "20%", "0%", "?", "?", "?", "?"], "the busiest actor is first"


def test_stalls_of_rocksdb_are_summed_over_tasks_and_not_over_the_stores_of_one() -> None:
    heading, one, two = rows_of(drawn(), "WRITES WAITED")
    assert heading == ["ACTOR", "WRITES", "WAITED", "STOPPED", "SLOWED", "TO", "TO", "COMPACT", *GC]
    assert one == ["one", "2.0", "s", "1", "8.0", "MB/s", "3.0", "kB", "12.5", "ms", "2", "41"]
    assert two == ["two", *["-"] * 7]
    in_memory = application(actor("one", task(0), measured={(THREAD, "gc-total"): 1}))
    assert rows_of(drawn(status=in_memory), "GC LONGEST") == [["ACTOR", *GC], ["one", "-", "-", "1"]]


GC = ["GC", "LONGEST", "FULL", "GCS", "GCS"]


def test_of_a_silent_actor_no_time_is_shown() -> None:
    slow = slow_of(replace(STATUS, silent=frozenset({"one"})), FUNCTIONS)
    assert slow.operators == ()
    assert [(row.actor_id, row.busy, bool(row.shares or row.rocksdb or row.gc)) for row in slow.actors] == [
        ("two", 0.2, True), ("one", None, False)
    ]  # fmt: skip
    assert "The shares of operators are not known yet" in drawn(slow=slow)
    none = application(actor("one", task(0, measured={(NODE, "busy-ratio", "enrich"): 0.0})))
    assert "No operator takes a measurable share of time" in drawn(status=none)


def test_a_narrow_window_shows_the_largest_shares() -> None:
    wide, narrow = (rows_of(drawn(width=width), "PROCESS")[0] for width in (160, 40))
    assert narrow == ["ACTOR", "BUSY", "PROCESS", "BROKER", "WAIT"]
    assert len(narrow) < len(wide)
    assert rows_of(drawn(width=40), "OPERATOR")[1] == ["enrich", "enrich", "program.py:12", "75%"]


@pytest.mark.parametrize("height", [1, 2, 3, 5, 8, 11, 12, 16, 24, 60])
@pytest.mark.parametrize("width", [1, 10, 20, 40, 80, 200])
def test_a_frame_fits_any_window(width: int, height: int) -> None:
    for status in (STATUS, crowd(0), crowd(1), crowd(30)):
        for view in (SLOW, replace(SLOW, first=1_000_000), replace(SLOW, filter="nothing")):
            drawn(view, width, height, status)
        drawn(width=width, height=height, status=status, slow=Slow())


def test_operators_have_a_third_of_a_low_window_and_actors_scroll_in_both_of_their_tables() -> None:
    def actors(view: View) -> tuple[list[str], ...]:
        lines = drawn(view, 100, 24, crowd(30))
        assert len(rows_of(lines, "OPERATOR")) == 6
        return tuple([row[0] for row in rows_of(lines, heading)[1:]] for heading in ("PROCESS", "GCS"))

    assert actors(SLOW) == ([f"stream/{number}" for number in (29, 28, 27, 26, 25)],) * 2
    assert actors(replace(SLOW, first=2)) == ([f"stream/{number}" for number in (27, 26, 25, 24, 23)],) * 2
    assert actors(replace(SLOW, first=1_000)) == ([f"stream/{number}" for number in (4, 3, 2, 1, 0)],) * 2


def test_a_high_window_shows_twenty_operators_and_all_actors() -> None:
    lines = drawn(height=60, status=crowd(5))
    operators = rows_of(lines, "OPERATOR")[1:]
    assert (len(operators), operators[0][0]) == (20, "KSTREAM-MAPVALUES-0000000040")
    assert len(rows_of(lines, "PROCESS")) == len(rows_of(lines, "GCS")) == 6


def test_w_shows_it_and_w_again_the_tasks() -> None:
    view = pressed(pressed(View(first=7), "w"), "t")
    assert view == SLOW, "tasks are sorted only where they are shown"
    assert any("w tasks" in line for line in drawn(view))
    assert pressed(view, "w") == View(sort=Sort.BEHIND)
    assert any("w why slow" in line for line in drawn(View()))
    assert pressed(replace(SLOW, typing=""), "w").typing == "w"


def test_a_filter_finds_operators_by_name_or_function_and_actors() -> None:
    def after(keys: bytes) -> list[str]:
        view = SLOW
        for key in keys_of(keys):
            view = pressed(view, key)
        return drawn(view)

    assert [row[0] for row in rows_of(after(b"/program.py\r"), "OPERATOR")] == ["OPERATOR", "enrich"]
    assert [row[0] for row in rows_of(after(b"/two\r"), "PROCESS")] == ["ACTOR", "two"]
    assert [row[0] for row in rows_of(after(b"/two\r"), "OPERATOR")] == ["OPERATOR"]


def test_long_and_hostile_names_leave_the_figures_in_place() -> None:
    name = "x" * 300
    status = application(actor("one", task(0, measured={(NODE, "busy-ratio", name): 0.4})))
    slow = slow_of(status, {name: FunctionView("mapper", "a\n\x1b[2J", None, None)})
    lines = drawn(width=160, status=status, slow=slow)
    assert rows_of(lines, "OPERATOR")[1] == ["x" * 43 + "…", "a??[2J", "40%", "40%", "?", "-"]


# ---- the command ----


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "connect_to", lambda application_id: None)
    monkeypatch.setattr(control, "require_status", lambda application_id: STATUS)
    monkeypatch.setattr(control, "functions_of", lambda application_id: FUNCTIONS)


@pytest.mark.usefixtures("running")
def test_a_pipe_gets_it_after_the_tasks() -> None:
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["top", "app"])
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert rows_of(lines, "OPERATOR")[1][:3] == ["enrich", "enrich", "program.py:12"]
    assert [line.split()[0] for line in lines if line and line.split()[0] in ("TASK", "ACTOR", "OPERATOR")] == [
        "TASK", "ACTOR", "OPERATOR", "ACTOR", "ACTOR"
    ]  # fmt: skip
    assert lines == [line.plain for line in plain(top_of(STATUS), slow_of(STATUS, FUNCTIONS), 200)]


@pytest.mark.usefixtures("running")
def test_json_has_operators_and_the_time_of_actors() -> None:
    body = json.loads(CliRunner().invoke(app, ["top", "app", "--json"]).stdout)
    assert body["operators"][0] == {
        "operator": "enrich", "subtopology": 0, "busy": 0.75, "busy_sum": 0.75, "records_per_s": 1200.0,
        "calls_in_flight": None,
        "function": {"role": "mapper", "name": "enrich", "file": "/home/ada/shop/program.py", "line": 12},
    }  # fmt: skip
    one = body["actor_times"][0]
    assert (one["actor_id"], one["busy"], one["shares"]["broker_wait"], one["gc"]["full_total"]) == (
        "one",
        0.95,
        0.03,
        2,
    )
    assert one["rocksdb"]["write_stall_ms"] == 2000
