"""Where log lines go, and what they say of themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog

from penstock.common.log import logger


@pytest.fixture
def unconfigured() -> Iterator[None]:
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
    logger("tests")  # as tests/conftest.py left it


@pytest.mark.usefixtures("unconfigured")
def test_lines_go_to_standard_error_which_commands_do_not_print_their_results_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logger("penstock.here").warning("it rains", litres=3)
    said = capsys.readouterr()
    assert said.out == ""
    for part in ("warning", "it rains", "litres", "3", "source", "penstock.here"):
        assert part in said.err


@pytest.mark.usefixtures("unconfigured")
def test_whoever_configures_structlog_decides() -> None:
    lines: list[dict[str, object]] = []

    def keep(_: object, __: str, line: dict[str, object]) -> str:
        lines.append(line)
        raise structlog.DropEvent

    ours = logger("penstock.here")
    structlog.configure(processors=[keep])  # type: ignore[list-item]  # a processor that returns nothing
    ours.warning("it rains")
    assert lines == [{"event": "it rains", "source": "penstock.here"}]
