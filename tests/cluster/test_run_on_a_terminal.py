"""``penstock run`` as a person sees it: the table, and at the end the whole cause."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.pseudo_terminal import CONTROL_C, on_terminal
from tests.cluster.conftest import WordCount
from tests.cluster.test_command_line import ROOT, RUN, gcs_address, write_program
from tests.waiting import eventually

# A line as Ray, penstock or a warning writes it.
NOISE = re.compile(r"pid=|\[(info|warning|error) *\]|Warning|WARNING|INFO|repeated \d+x|raylet")


def environment(**more: str) -> dict[str, str]:
    inherited = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    return {**inherited, "PYTHONPATH": str(ROOT), **more}


def log_of(lines: list[str]) -> Path:
    """The log that the first line names, behind those that show what is awaited and go away."""
    first = next(line for line in lines if not line.endswith("…"))
    assert first.startswith("Log: ")
    return Path(first.removeprefix("Log: "))


def runs_everywhere(lines: list[str]) -> bool:
    """Returns True if a table among ``lines`` has four running tasks on four actors."""
    rows = [line.split() for line in lines]
    actors = [row[1] if row[2:3] == ["running"] else "" for row in rows]
    return any(
        row[0] == "all" and "" not in (four := actors[number - 4 : number]) and len(set(four)) == 4
        for number, row in enumerate(rows)
    )


@pytest.mark.submission
def test_a_terminal_shows_the_table_and_ctrl_c_drains(word_count: Callable[[], WordCount], tmp_path: Path) -> None:
    it = word_count()
    write_program(tmp_path, it)
    with on_terminal(*RUN, cwd=tmp_path, env=environment(RAY_ADDRESS=gcs_address())) as seen:
        # A task that still moves counts from zero again.
        eventually(lambda: runs_everywhere(seen.lines), "each task on an actor of its own")
        it.send(["a b a", "c a"])
        # Two lines in, five words through the repartition topic.
        eventually(lambda: any(line.split()[:2] == ["all", "7"] for line in seen.lines), "all processed")
        seen.press(CONTROL_C)
        assert seen.wait() == 0
    log = log_of(seen.lines)
    assert log.parent == it.state_dir
    assert [line for line in seen.lines if NOISE.search(line)] == []
    assert seen.lines[-1] == f"Application {it.application_id} has stopped; all it processed is committed."
    assert it.committed() == 2


@pytest.mark.parametrize("interrupted_in", ["check", "close"])
@pytest.mark.long
def test_ctrl_c_at_a_bad_moment_is_one_sentence(
    word_count: Callable[[], WordCount], tmp_path: Path, interrupted_in: str
) -> None:
    it = word_count()
    write_program(tmp_path, it)
    moment = tmp_path / "now"
    (tmp_path / "bad.py").write_text(f"""
import pathlib, time
from program import app
import penstock as ps

def wait(*arguments):
    pathlib.Path({str(moment)!r}).touch()
    time.sleep(60)

app.{interrupted_in} = wait
ps.run(app)
""")
    with on_terminal("bad.py", cwd=tmp_path, env=environment(RAY_ADDRESS=gcs_address())) as seen:
        if interrupted_in == "close":
            eventually(lambda: any("RUNNING" in line for line in seen.lines), "running")
            seen.press(CONTROL_C)
        eventually(moment.exists, "the moment")
        seen.press(CONTROL_C)
        assert seen.wait() == 130
    # The terminal itself shows ^C.
    assert seen.lines[-1].removeprefix("^C").startswith(f"Application {it.application_id} was interrupted")
    assert not any("Traceback" in line for line in seen.lines)


@pytest.mark.long
def test_the_cause_of_an_error_is_shown_in_full(word_count: Callable[[], WordCount], tmp_path: Path) -> None:
    it = word_count()
    write_program(tmp_path, it)
    text = (tmp_path / "program.py").read_text()
    message = "no good: " + "x" * 400 + " [/end]"
    (tmp_path / "program.py").write_text(
        text.replace("lambda line: line.split()", "refuse").replace(
            "import penstock as ps",
            f"import penstock as ps\n\ndef refuse(line):\n    raise ValueError({message!r})\n",
        )
    )
    it.send(["a"])
    with on_terminal(*RUN, cwd=tmp_path, env=environment(RAY_ADDRESS=gcs_address())) as seen:
        assert seen.wait() == 1
    assert [line for line in seen.lines if NOISE.search(line)] == []
    end = re.sub(r"\s", "", "".join(seen.lines[-20:]))
    assert f"application{it.application_id!r}endedinERROR".replace(" ", "") in end
    assert re.sub(r"\s", "", message) in end
    assert "program.py" in end
