"""Options of every command: help in two spellings, a version, completion."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import penstock as ps
from penstock.cli.main import app
from penstock.cli.output import print_json
from tests.waiting import PATIENCE_S

COMMANDS = [
    [], ["run"], ["status"], ["stop"], ["query"], ["describe"], ["backfill"], ["broker"], ["broker", "start"],
    ["topic"], ["topic", "create"], ["topic", "list"], ["topic", "describe"], ["topic", "delete"], ["topic", "send"],
    ["topic", "read"],
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_is_given_for_h_too(command: list[str]) -> None:
    short, long = (CliRunner().invoke(app, [*command, option]) for option in ("-h", "--help"))
    assert short.exit_code == long.exit_code == 0
    assert short.stdout == long.stdout
    assert "Usage:" in short.stdout


@pytest.mark.parametrize("given", [ps.StreamsBuilder(), ps.StreamsBuilder().stream("in"), None])
def test_run_refuses_anything_but_an_application(given: Any) -> None:
    with pytest.raises(TypeError, match=rf"run needs a KafkaStreams, not a {type(given).__name__}: make KafkaStreams"):
        ps.run(given)


def test_the_version_is_that_of_the_package() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"penstock {version('penstock-streams')}\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_given_the_script_that_completes_commands(shell: str) -> None:
    program = "import sys; sys.argv[0] = 'penstock'; from penstock.cli.main import main; main()"
    command = [sys.executable, "-c", program]
    # Else Typer takes the shell among the ancestors of the process, of which CI may have none.
    env = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = subprocess.run(
        [*command, "--show-completion", shell], env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "_PENSTOCK_COMPLETE" in done.stdout


def test_commands_and_serdes_are_completed() -> None:
    program = "import sys; sys.argv[0] = 'penstock'; from penstock.cli.main import main; main()"

    def completed(line: str, words: int) -> list[str]:
        env = {**os.environ, "_PENSTOCK_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(words)}
        done = subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        return done.stdout.split()

    assert completed("penstock topic re", 2) == ["read"]
    assert "long" in completed("penstock topic read t --value lo", 5)


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        (["scale"], "scale [OPTIONS] APP [ACTORS]"),
        (["dlq", "replay"], "replay [OPTIONS] TOPIC [PARTITION@OFFSET]..."),
        (["topic", "send"], "send [OPTIONS] TOPIC [FILE]..."),
    ],
)
def test_arguments_that_may_be_left_out_are_in_one_pair_of_brackets(command: list[str], usage: str) -> None:
    shown = CliRunner().invoke(app, [*command, "-h"], env={"COLUMNS": "120"}).stdout
    # Releases of Typer differ in the signs around what must be given, and after a list.
    assert usage.removesuffix("...") in shown.replace("{", "").replace("}", "")


def test_help_loads_neither_ray_nor_a_kafka_client_nor_what_few_commands_need() -> None:
    program = (
        "import sys; from typer.testing import CliRunner; from penstock.cli.main import app\n"
        "for command in [['-h'], ['topic', 'read', '-h'], ['status', '-h']]: CliRunner().invoke(app, command)\n"
        "late = {'penstock.tasks.operators', 'penstock.topology.picture'}\n"
        "late |= {'ray', 'confluent_kafka', 'pyspark', 'fastapi', 'penstock.cluster.topic_reading.topic_serdes'}\n"
        "print(sorted(late & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.stdout == "[]\n", done.stderr


def test_a_command_that_runs_no_program_executes_nothing_that_lies_in_this_folder(tmp_path: Path) -> None:
    (tmp_path / "confluent_kafka.py").write_text("raise SystemExit('executed')")
    program = "from penstock.cli.main import main; main()"
    # Installed, the command has no current folder on its path; -P gives python -c none either.
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, "topic", "send", "lines", "absent.txt"],
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.stderr == "there is no file absent.txt\n"


def test_json_for_programs_keeps_integers_of_any_size(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"n": 2**64, "none": []})
    assert capsys.readouterr().out == '{\n  "n": 18446744073709551616,\n  "none": []\n}\n'


@pytest.mark.parametrize("name", ["penstock", "program.py"])
def test_ctrl_c_while_the_command_is_still_imported_shows_no_traceback(name: str, tmp_path: Path) -> None:
    script = tmp_path / name
    script.write_text("import signal\nimport penstock\nsignal.raise_signal(signal.SIGINT)\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == -signal.SIGINT
    assert ("Traceback" in done.stderr) == (name != "penstock"), "of a program of the user's it is the user's"


@pytest.mark.parametrize("later", ["penstock.common.errors", "typing", "types", "re", "enum"])
def test_the_handler_of_ctrl_c_is_installed_before_other_imports(later: str) -> None:
    program = f"""
import sys
sys.argv, former = ["penstock"], sys.excepthook
sys.modules[{later!r}] = None
try:
    import penstock
except ImportError:
    print(former is sys.excepthook)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.stdout == "False\n", done.stderr
