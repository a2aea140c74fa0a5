"""The calls of the uncaught exception handler by the stream loop, and the effects of its answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.actors.failure import UncaughtErrors
from penstock.common.handlers import UncaughtExceptionResponse
from penstock.common.log import logger
from tests.actors.rig import STRING, Rig, settle

REPLACE = UncaughtExceptionResponse.REPLACE_ACTOR
CLIENT = UncaughtExceptionResponse.SHUTDOWN_CLIENT


def refuse(value: str) -> str:
    raise ValueError(f"bad {value}")


def failing(state_dir: Path, handler: Any) -> Rig:
    builder = ps.StreamsBuilder()
    builder.stream("in", ps.Consumed.with_(STRING, STRING)).map_values(refuse).to("out")
    rig = Rig(state_dir, builder.build(), partitions=2, default_value_serde=STRING)
    rig.spec = replace(rig.spec, uncaught_exception_handler=handler)
    return rig


def test_the_handler_hears_once_of_the_error_with_its_record_and_its_cause(tmp_path: Path) -> None:
    heard: list[BaseException] = []

    def handler(exception: BaseException) -> UncaughtExceptionResponse:
        heard.append(exception)
        return REPLACE

    rig = failing(tmp_path, handler)
    loop = rig.running()
    rig.write("in", ("k", "apple", 1), partition=0)
    rig.write("in", ("k", "pear", 1), partition=1)
    settle(loop)
    (error,) = heard
    assert isinstance(error, ps.ProcessingError)
    assert (error.topic, error.offset) == ("in", 0)
    assert isinstance(error.__cause__, ValueError)
    assert loop.uncaught.response is REPLACE
    assert "bad " in (loop.finished.result() or "")
    assert rig.committed(0) is None
    assert rig.committed(1) is None, "the one that replaces it begins with the same records"


def test_without_a_handler_or_an_error_the_answer_is_to_shut_down_the_client(tmp_path: Path) -> None:
    loop = failing(tmp_path, None).loop()
    assert loop.uncaught.response is CLIENT
    loop.uncaught.handle(ValueError("bad"))
    assert loop.uncaught.response is CLIENT


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (lambda _: None, "gave no answer"),
        (lambda _: "REPLACE_THREAD", "UncaughtExceptionResponse.REPLACE_ACTOR"),
        (lambda _: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_a_handler_that_fails_or_answers_something_else_shuts_down_the_client_and_it_is_reported(
    handler: Any, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    errors = UncaughtErrors(handler, logger(__name__))
    reported = errors.handle(ValueError("bad"))
    assert errors.response is CLIENT
    assert message in "".join(capsys.readouterr())
    assert message in reported


def test_that_the_handler_failed_is_reported_with_the_error_that_ended_the_loop(tmp_path: Path) -> None:
    rig = failing(tmp_path, lambda _: 1 / 0)
    loop = rig.running()
    rig.write("in", ("k", "apple", 1), partition=0)
    settle(loop)
    reported = loop.finished.result() or ""
    assert "bad apple" in reported
    assert reported.endswith("\nThe uncaught exception handler failed, too: ZeroDivisionError: division by zero")


def test_only_the_first_error_counts() -> None:
    answers = iter([REPLACE, CLIENT])
    errors = UncaughtErrors(lambda _: next(answers), logger(__name__))
    errors.handle(ValueError("first"))
    errors.handle(ValueError("that came of it"))
    assert errors.response is REPLACE
