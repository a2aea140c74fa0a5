"""The last warnings and errors of a process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog

from penstock.common import log
from penstock.common.kept_lines import MOST_AT_ONCE, MOST_LINES, KeptLines, line_text


@pytest.fixture
def kept() -> KeptLines:
    return KeptLines(lambda: 1_000)


@pytest.fixture(params=["text", "json"])
def configured(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[KeptLines]:
    """The lines of a process that logs in this format."""
    before, kept = structlog.get_config(), KeptLines()
    monkeypatch.setattr(log, "KEPT", kept)
    structlog.reset_defaults()
    log._configure(request.param)
    yield kept
    structlog.configure(**before)


def warned(kept: KeptLines, count: int) -> None:
    for number in range(count):
        kept.keep(None, "warning", {"event": f"line {number}", "level": "warning"})


def test_warnings_and_errors_are_kept_with_their_origin_and_no_other_lines(configured: KeptLines) -> None:
    logger = structlog.get_logger(source="here", application="app", actor="stream/1", task="1_0")
    logger.info("not this one")
    logger.warning("commit failed, retrying", error="no broker", attempt=3)
    try:
        raise ValueError("boom")
    except ValueError as error:
        logger.error("internal error", exc_info=error)
    first, second = configured.give(1)
    assert (first.number, first.level, first.event) == (0, "warning", "commit failed, retrying")
    assert (first.actor, first.task) == ("stream/1", "1_0")
    assert first.text == "commit failed, retrying: no broker (attempt=3)"
    assert 1_600_000_000_000 < first.at_ms < 10_000_000_000_000
    assert (second.level, second.text) == ("error", "internal error: ValueError: boom")


class Table:
    """A value of a program, such as an array, that is neither true nor false."""

    def __bool__(self) -> bool:
        raise ValueError("the truth value is ambiguous")

    def __repr__(self) -> str:
        return "<table>"


def test_a_program_may_log_any_value_as_an_error_an_actor_and_a_task(kept: KeptLines) -> None:
    event = {"event": "cannot join", "error": Table(), "actor": "a" * 10_000, "task": "t" * 10_000}
    assert kept.keep(None, "warning", event) is event
    kept.keep(None, "warning", {"event": "no reason", "error": ""})
    found, empty = kept.give(1)
    assert (found.text, empty.text) == ("cannot join: <table>", "no reason")
    assert found.actor is not None
    assert found.task is not None
    assert max(len(found.actor), len(found.task)) <= 400


def test_each_line_is_given_as_often_as_wanted_in_order(kept: KeptLines) -> None:
    warned(kept, 2)
    assert [line.number for line in kept.give(2)] == [0, 1]
    kept.keep(None, "error", {"event": "another"})
    assert [line.number for line in kept.give(2)] == [0, 1, 2]
    assert [line.number for line in kept.give(2)] == [2]
    assert kept.give(2) == ()


def test_the_oldest_lines_go_if_there_are_too_many_and_few_are_given_at_once(kept: KeptLines) -> None:
    warned(kept, MOST_LINES + 10)
    given = kept.give(1)
    assert [line.number for line in given] == list(range(10, 10 + MOST_AT_ONCE))
    rest = [line.number for _ in range(10) for line in kept.give(1)]
    assert rest == list(range(10 + MOST_AT_ONCE, MOST_LINES + 10))


def test_a_text_is_one_line_and_clipped_whatever_is_in_it() -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError

    text = line_text({"event": "e\n\nf", "value": Hostile(), "source": "x", "error": "a\nb"})
    assert text == "e f: a b (value=<" + text.partition("<")[2]
    assert len(line_text({"event": "x" * 10_000})) == 400


def test_an_exception_whose_text_cannot_be_made_has_its_name() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert line_text({"event": "failed", "exc_info": MuteError()}) == "failed: MuteError"
    assert line_text({"event": "failed", "exc_info": True}) == "failed"


def test_the_log_of_a_process_keeps_its_lines_with_the_first_logger() -> None:
    program = (
        "from penstock.common.log import KEPT, identify, logger\n"
        "identify('app', 'stream/7')\n"
        "logger('x').warning('something', a=1)\n"
        "print([(line.actor, line.text) for line in KEPT.give(1)])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[('stream/7', 'something (a=1)')]"
