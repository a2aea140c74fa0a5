"""Answers of the exception handlers, their dead letters, and the lines that they log."""

from __future__ import annotations

import pickle
import time
from typing import Any

import pytest
from structlog.testing import capture_logs

from penstock.common.errors import ConfigError, ProductionError, RetriableError
from penstock.common.handlers import (
    DefaultProductionExceptionHandler,
    ErrorHandlerContext,
    LogAndContinue,
    LogAndFail,
    ProcessingExceptionHandler,
    Response,
    Result,
    SerializationExceptionOrigin,
    asked,
)
from penstock.common.ids import TaskId
from penstock.common.records import ProducerRecord
from penstock.common.similar_lines import SimilarLines

AT = ErrorHandlerContext("in", 1, 2, [("trace", b"7")], "KSTREAM-MAP-1", TaskId(0, 1), 9, b"k", b"v", "letters")
WITHOUT_TOPIC = ErrorHandlerContext("in", 1, 2, [], "node", TaskId(0, 1), 9, b"k", b"v")
REFUSED: ProducerRecord[bytes | None, bytes | None] = ProducerRecord("out", b"k", b"v", 9)


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:
        return caught


class TestLetters:
    def test_a_letter_has_the_bytes_that_were_read_and_the_headers_of_kip_1034_in_its_order(self) -> None:
        (letter,) = AT.dead_letter_queue_records(raised(ValueError("no good: ä")))
        assert (letter.topic, letter.key, letter.value, letter.timestamp) == ("letters", b"k", b"v", 9)
        assert letter.partition is None
        headers = dict(letter.headers)
        stack = headers.pop("__streams.errors.stacktrace")
        assert stack is not None
        assert stack.decode().startswith("Traceback")
        assert stack.decode().endswith("ValueError: no good: ä\n")
        assert list(headers.items()) == [
            ("trace", b"7"),
            ("__streams.errors.exception", b"ValueError"),
            ("__streams.errors.message", "no good: ä".encode()),
            ("__streams.errors.topic", b"in"),
            ("__streams.errors.partition", b"1"),
            ("__streams.errors.offset", b"2"),
        ]
        assert [name for name, _ in letter.headers][3] == "__streams.errors.stacktrace"

    def test_an_error_without_a_message_and_a_place_without_a_record_have_nulls(self) -> None:
        nowhere = ErrorHandlerContext(None, -1, -1, (), "node", TaskId(0, 1), 9, dead_letter_queue_topic="letters")
        (letter,) = nowhere.dead_letter_queue_records(ConfigError())
        headers = dict(letter.headers)
        assert headers["__streams.errors.exception"] == b"penstock.common.errors.ConfigError"
        assert headers["__streams.errors.message"] is headers["__streams.errors.topic"] is None
        assert headers["__streams.errors.partition"] == headers["__streams.errors.offset"] == b"-1"
        assert letter.key is letter.value is None

    def test_half_of_a_surrogate_pair_in_a_message_is_replaced(self) -> None:
        (letter,) = AT.dead_letter_queue_records(ValueError("\ud800"))
        assert dict(letter.headers)["__streams.errors.message"] == b"?"

    def test_a_message_that_quotes_a_large_value_is_shortened_and_the_frames_are_kept(self) -> None:
        try:
            float("x" * 900_000)
        except ValueError as caught:
            (letter,) = AT.dead_letter_queue_records(caught)
        headers = dict(letter.headers)
        message, stack = headers["__streams.errors.message"] or b"", headers["__streams.errors.stacktrace"] or b""
        assert message.startswith(b"could not convert string to float: 'xxx")
        assert b"characters left out" in message
        assert b'float("x" * 900_000)' in stack
        assert len(message) + len(stack) < 40_000

    def test_without_a_topic_the_built_in_handlers_make_no_letter(self) -> None:
        assert WITHOUT_TOPIC.dead_letter_queue_records(ValueError()) == ()


class TestBuiltIn:
    @pytest.mark.parametrize("at", [AT, WITHOUT_TOPIC])
    def test_fail_or_resume_with_a_letter_if_there_is_a_topic(self, at: ErrorHandlerContext) -> None:
        fail, resume = (
            LogAndFail().handle_error(at, None, KeyError()),
            LogAndContinue().handle_error(at, None, KeyError()),
        )
        assert (fail.result, resume.result) == (Result.FAIL, Result.RESUME)
        assert len(fail.dead_letter_queue_records) == len(resume.dead_letter_queue_records) == (at is AT)

    def test_the_default_production_handler_retries_if_the_error_may_pass(self) -> None:
        handler = DefaultProductionExceptionHandler()
        assert handler.handle_error(AT, REFUSED, RetriableError("soon")) == Response.retry()
        fail = handler.handle_error(AT, REFUSED, ProductionError("too large"))
        assert (fail.result, len(fail.dead_letter_queue_records)) == (Result.FAIL, 1)

    def test_a_result_that_cannot_be_serialised_fails(self) -> None:
        origin = SerializationExceptionOrigin.VALUE
        fail = DefaultProductionExceptionHandler().handle_serialization_error(AT, REFUSED, ValueError(), origin)
        assert (fail.result, len(fail.dead_letter_queue_records)) == (Result.FAIL, 1)

    def test_log_and_continue_logs_the_place_and_the_error(self) -> None:
        with capture_logs() as lines:
            LogAndContinue().handle_error(AT, None, raised(ZeroDivisionError("once")))
        (line,) = lines
        assert line["event"] == "record dropped"
        assert line["at"] == "topic in, partition 1, offset 2; node KSTREAM-MAP-1; task 0_1"
        assert line["error"] == "ZeroDivisionError: once"
        assert "test_handlers.py" in line["cause"]

    def test_log_and_fail_leaves_the_log_line_to_the_code_that_raises_the_error(self) -> None:
        with capture_logs() as lines:
            LogAndFail().handle_error(AT, None, ValueError())
        assert lines == []

    def test_many_similar_lines_become_a_few(self) -> None:
        class OwnError(Exception):
            pass

        with capture_logs() as lines:
            for _ in range(100):
                LogAndContinue().handle_error(AT, None, OwnError())
        assert len(lines) == 5


def test_similar_lines_are_admitted_again_after_a_while_with_the_number_of_those_left_out() -> None:
    now = [0.0]
    lines = SimilarLines(most=2, period_s=30.0, clock=lambda: now[0])
    assert [lines.admit("a") for _ in range(5)] == [0, 0, None, None, None]
    assert lines.admit("b") == 0
    now[0] = 31.0
    assert [lines.admit("a"), lines.admit("a")] == [3, 0]


@pytest.mark.parametrize("answer", [Response.resume(), Response.fail(), Response.retry()])
def test_an_answer_travels_to_other_processes(answer: Response) -> None:
    assert pickle.loads(pickle.dumps(answer)) == answer


class Answering(ProcessingExceptionHandler):
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def handle_error(self, context: ErrorHandlerContext, record: Any, error: Exception) -> Response:
        answer: Response = self.answer() if callable(self.answer) else self.answer
        return answer


def ask(answer: Any) -> Response:
    handler, error = Answering(answer), KeyError("x")
    return asked(handler, lambda: handler.handle_error(AT, None, error), error, AT)


NOT_A_RESULT: Any = "resume"
NO_LETTERS: Any = None


@pytest.mark.parametrize(
    "answer",
    [None, True, "resume", Result.RESUME, Response(NOT_A_RESULT), Response(Result.RESUME, NO_LETTERS)],
)
def test_an_answer_that_is_not_a_response_is_an_error_that_names_the_handler_and_the_record(answer: object) -> None:
    with pytest.raises(ConfigError, match=r"Answering returned .*: return Response.resume\(\) .*KeyError.*offset 2"):
        ask(answer)


def test_a_handler_that_raises_is_named_with_the_record_that_it_was_asked_about() -> None:
    def broken() -> Response:
        raise OSError("oops")

    with pytest.raises(
        ConfigError, match=r"Answering raised OSError: oops \(it was asked about KeyError: 'x' .*offset 2"
    ):
        ask(broken)


@pytest.mark.parametrize(
    ("letter", "words"),
    [
        ("letter", "the dead letter 'letter': it must be a ProducerRecord"),
        (ProducerRecord("letters", "k", None), "whose key is of type str"),
        (ProducerRecord("letters", None, {}), "whose value is of type dict"),
        (ProducerRecord("letters", None, None, headers=[("a", "b")]), "cannot be sent"),  # type: ignore[list-item]
    ],
)
def test_a_letter_that_cannot_be_sent_is_refused_before_it_is_sent(letter: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ask(Response.resume([letter]))


def test_a_slow_handler_is_named_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 1.5, 1.6])
    monkeypatch.setattr("penstock.common.handlers.time", type("Clock", (), {"monotonic": lambda: next(times, 2.0)}))
    with capture_logs() as lines:
        ask(Response.resume())
    ((line),) = lines
    assert (line["handler"], line["seconds"]) == ("Answering", 1.5)
    assert time.monotonic() > 0
