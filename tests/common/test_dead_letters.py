"""The form of dead letters: that of Kafka Streams, which may have written them."""

from __future__ import annotations

from penstock.common.dead_letters import (
    ERROR_HEADERS,
    LetterError,
    Replayed,
    own_headers,
    read_error,
    read_replayed,
    replayed_header,
)
from penstock.common.records import Header
from tests.cluster.dead_letters.making import error_headers


def test_the_error_headers_are_those_of_kip_1034_in_their_order() -> None:
    parts = ("exception", "message", "stacktrace", "topic", "partition", "offset")
    assert tuple(f"__streams.errors.{part}" for part in parts) == ERROR_HEADERS


def test_the_error_of_a_letter_is_read() -> None:
    found = read_error([("source", b"shop"), *error_headers("orders", 3, 42, "a.b.C", "bad", "trace")])
    assert found == LetterError("a.b.C", "bad", "trace", "orders", 3, 42)


def test_parts_that_a_letter_lacks_are_none() -> None:
    assert read_error([("source", b"shop")]) is None
    assert read_error([]) is None
    assert read_error(error_headers(None, -1, -1, message=None)) == LetterError(
        "builtins.ValueError", None, "Traceback …\n  line 1", None, None, None
    )
    assert read_error([(ERROR_HEADERS[0], b"C"), (ERROR_HEADERS[4], b"x")]) == LetterError("C", *[None] * 5)


def test_kafka_streams_4_2_writes_class_and_message_in_one_header() -> None:
    found = read_error(error_headers(exception="org.example.Bad: it is: bad", message="it is: bad"))
    assert found is not None
    assert (found.exception, found.message) == ("org.example.Bad", "it is: bad")


def test_of_a_letter_about_a_letter_the_last_error_counts_and_the_first_one_is_part_of_the_record() -> None:
    first, second = error_headers("orders", 0, 1), error_headers("orders-dlq", 1, 5, "Other")
    headers = [("source", b"shop"), *first, *second]
    found = read_error(headers)
    assert found is not None
    assert (found.exception, found.topic) == ("Other", "orders-dlq")
    assert own_headers(headers) == [("source", b"shop"), *first]


def test_headers_of_the_record_keep_their_order_and_their_repetitions() -> None:
    own: list[Header] = [("a", b"1"), ("b", None), ("a", b"2")]
    assert own_headers([*own, *error_headers()]) == own


def test_the_header_of_a_replay_is_read_and_not_part_of_the_record() -> None:
    replayed = Replayed("orders-dlq", 1, 12, 2)
    headers = [("a", b"1"), replayed_header(Replayed("orders-dlq", 0, 3, 1)), replayed_header(replayed)]
    assert read_replayed([*headers, *error_headers()]) == replayed
    assert own_headers([*headers, *error_headers()]) == [("a", b"1")]
    assert read_replayed([("a", b"1")]) is None
    assert read_replayed([("__penstock.replayed", b"not JSON")]) is None
