"""Destinations of log lines, and the fields that they have."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator

import pytest
import structlog

from penstock.common import log
from penstock.common.log import at_work, identify, logger, use_format


@pytest.fixture
def unconfigured(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    structlog.reset_defaults()
    monkeypatch.setattr(log, "_process", {})
    monkeypatch.setattr(log, "_thread", log._Thread())
    yield
    structlog.reset_defaults()
    logger("tests")  # as tests/conftest.py left it


@pytest.mark.usefixtures("unconfigured")
def test_lines_go_to_standard_error_which_commands_do_not_print_their_results_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logger("penstock.here").warning("it rains", litres=3)
    message = capsys.readouterr()
    assert message.out == ""
    for part in ("warning", "it rains", "litres", "3", "source", "penstock.here"):
        assert part in message.err


@pytest.mark.usefixtures("unconfigured")
def test_a_program_that_configures_structlog_decides() -> None:
    lines: list[dict[str, object]] = []

    def keep(_: object, __: str, line: dict[str, object]) -> str:
        lines.append(line)
        raise structlog.DropEvent

    ours = logger("penstock.here")
    structlog.configure(processors=[keep])  # type: ignore[list-item]  # a processor that returns nothing
    ours.warning("it rains")
    assert lines == [{"event": "it rains", "source": "penstock.here"}]


@pytest.mark.usefixtures("unconfigured")
@pytest.mark.parametrize(("a_terminal", "coloured"), [(True, True), (False, False)])
def test_lines_have_colours_on_a_terminal_alone_wherever_standard_error_leads_by_then(
    a_terminal: bool, coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = logger("penstock.here")
    shown = io.StringIO()
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(shown, "isatty", lambda: a_terminal)
    monkeypatch.setattr("sys.stderr", shown)
    ours.warning("it rains")
    assert ("\x1b[" in shown.getvalue()) is coloured


def said_in_json(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


@pytest.mark.usefixtures("unconfigured")
def test_in_json_each_line_is_an_object_with_time_and_level(capsys: pytest.CaptureFixture[str]) -> None:
    use_format("json")
    logger("penstock.here").warning("it rains", litres=3, key=b"k")
    (line,) = said_in_json(capsys)
    assert str(line.pop("timestamp")).endswith("Z")
    assert line == {
        "event": "it rains", "level": "warning", "source": "penstock.here", "litres": 3, "key": "b'k'",
    }  # fmt: skip


@pytest.mark.usefixtures("unconfigured")
def test_an_exception_is_part_of_its_line_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    use_format("json")
    logger("penstock.here").error("it broke", exc_info=ValueError("too wet"))
    (line,) = said_in_json(capsys)
    assert "too wet" in json.dumps(line["exception"])


@pytest.mark.usefixtures("unconfigured")
def test_the_format_may_change_and_change_back(capsys: pytest.CaptureFixture[str]) -> None:
    logger("penstock.here").info("one")
    use_format("json")
    logger("penstock.here").info("two")
    use_format("text")
    logger("penstock.here").info("three")
    one, two, three = capsys.readouterr().err.splitlines()
    assert json.loads(two)["event"] == "two"
    assert not one.startswith("{")
    assert not three.startswith("{")


@pytest.mark.usefixtures("unconfigured")
def test_the_format_of_a_program_that_configures_structlog_is_kept() -> None:
    lines: list[str] = []

    class Keeping:
        def msg(self, line: str) -> None:
            lines.append(line)

        info = msg

    structlog.configure(processors=[structlog.processors.KeyValueRenderer()], logger_factory=lambda *_: Keeping())
    use_format("json")
    logger("penstock.here").info("mine")
    assert lines == ["source='penstock.here' event='mine'"]


@pytest.mark.usefixtures("unconfigured")
def test_each_log_line_of_an_actor_names_the_actor_and_its_application(capsys: pytest.CaptureFixture[str]) -> None:
    use_format("json")
    identify("word-count", "stream/1")
    logger("penstock.here").info("one")
    logger("penstock.here").info("of another", actor="stream/2")
    one, other = said_in_json(capsys)
    assert (one["application"], one["actor"]) == ("word-count", "stream/1")
    assert other["actor"] == "stream/2", "a line that names one means that one"


@pytest.mark.usefixtures("unconfigured")
def test_a_line_of_a_thread_at_work_at_a_task_names_it_and_one_of_another_thread_does_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    use_format("json")
    current: list[str | None] = ["0_1"]
    at_work(lambda: current[0])
    logger("penstock.here").info("within")
    current[0] = None
    logger("penstock.here").info("between")
    current[0] = "0_2"
    other = threading.Thread(target=lambda: logger("penstock.here").info("elsewhere"))
    other.start()
    other.join()
    within, between, elsewhere = said_in_json(capsys)
    assert within["task"] == "0_1"
    assert "task" not in between
    assert "task" not in elsewhere
