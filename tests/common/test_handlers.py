"""Answers of the exception handlers, and the lines that they log."""

from __future__ import annotations

import pickle

import pytest
from structlog.testing import capture_logs

from penstock.common.errors import ConfigError, DeserializationError, ProcessingError, RecordError
from penstock.common.handlers import ExceptionHandler, HandlerResponse, LogAndContinue, LogAndFail, response_of

ERRORS = [
    DeserializationError("the value cannot be decoded", topic="in", partition=1, offset=2, key=b"k"),
    ProcessingError("KeyError: 'x'", operator="KSTREAM-MAP-1", topic="in", partition=1, offset=2, key="k"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    ("handler", "answer"), [(LogAndFail(), HandlerResponse.FAIL), (LogAndContinue(), HandlerResponse.RESUME)]
)
def test_the_answer_is_that_of_the_name(handler: ExceptionHandler, answer: HandlerResponse, error: RecordError) -> None:
    assert handler(error) is answer


def test_log_and_continue_logs_the_records_offset_and_the_error() -> None:
    error = ProcessingError("KeyError: 'x'", operator="op", topic="in", partition=1, offset=2, key="k")
    error.__cause__ = KeyError("x")
    with capture_logs() as lines:
        LogAndContinue()(error)
    assert lines == [
        {
            "event": "record dropped",
            "log_level": "warning",
            "source": "penstock.common.handlers",
            "error": "KeyError: 'x' [operator op; topic in, partition 1, offset 2; key 'k']",
            "cause": "KeyError('x')",
        }
    ]


def test_log_and_fail_leaves_the_log_line_to_the_code_that_raises_the_error() -> None:
    with capture_logs() as lines:
        LogAndFail()(ERRORS[0])
    assert lines == []


@pytest.mark.parametrize("answer", HandlerResponse)
def test_an_answer_is_the_same_object_in_every_process(answer: HandlerResponse) -> None:
    assert pickle.loads(pickle.dumps(answer)) is answer


def test_there_are_two_answers() -> None:
    assert {answer.name for answer in HandlerResponse} == {"RESUME", "FAIL"}


@pytest.mark.parametrize("answer", [None, True, "resume"])
def test_an_answer_that_is_none_is_an_error_that_names_the_handler_and_the_record(answer: object) -> None:
    def careless(error: RecordError) -> HandlerResponse:
        return answer  # type: ignore[return-value]

    with pytest.raises(ConfigError, match=rf"careless returned {answer!r}: return HandlerResponse.RESUME .*offset 2"):
        response_of(careless, ERRORS[0])


def test_a_handler_that_raises_is_named_with_the_record_that_it_was_asked_about() -> None:
    def broken(error: RecordError) -> HandlerResponse:
        raise KeyError("oops")

    with pytest.raises(ConfigError, match=r"handler .*broken raised KeyError: 'oops' \(it was asked about: .*offset 2"):
        response_of(broken, ERRORS[0])
