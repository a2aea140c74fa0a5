"""Keys and values as they are shown, whatever their bytes are, and whatever a serde does."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.cluster.record_side import Form, Shown
from penstock.cluster.topic_reading.showing import MOST_DECODED, Decoder, clip, clipped_headers, raw
from penstock.common.errors import RetriableError
from penstock.common.serdes import Serde, Serdes

LONG, JSON = Serdes.long(), Serdes.json()


class Clock:
    """A clock that goes when it is told to."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def show(serde: Serde[Any], data: bytes | None) -> Shown | None:
    return Decoder(1.0, Clock()).show(serde, clip(data))


def test_a_serde_decodes_and_null_is_null() -> None:
    assert show(LONG, LONG.serialize(7)) == Shown(Form.DECODED, 7, 8)
    assert show(JSON, b"null") == Shown(Form.DECODED, None, 4)
    assert show(JSON, None) is None


def test_bytes_that_the_serde_refuses_are_text_or_bytes_with_the_reason() -> None:
    text, binary = show(LONG, "<b>ü\0\u202e</b>".encode()), show(LONG, b"\xff\x00")
    assert text is not None
    assert binary is not None
    assert (text.form, text.value, text.size) == (Form.TEXT, "<b>ü\0\u202e</b>", 13)
    assert (binary.form, binary.value, binary.size) == (Form.BYTES, b"\xff\x00", 2)
    assert text.problem is not None
    assert text.problem.startswith("serde long cannot decode it: ")


class NoTextError(Exception):
    """Its text cannot be had either."""

    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize("error", [NoTextError(), RecursionError("deep"), MemoryError(), ValueError("x" * 10_000)])
def test_a_serde_that_raises_anything_hides_one_value(error: Exception) -> None:
    def refuse(data: bytes) -> object:
        raise error

    shown = show(Serde("mine", JSON.serialize, refuse), b"text")
    assert shown is not None
    assert (shown.form, shown.value) == (Form.TEXT, "text")
    assert shown.problem is not None
    assert shown.problem.startswith(f"serde mine cannot decode it: {type(error).__name__}")
    assert len(shown.problem) < 500


def test_a_large_value_is_not_decoded_and_its_beginning_is_shown() -> None:
    shown = show(JSON, b'"' + b"a" * MOST_DECODED + b'"')
    assert shown is not None
    assert (shown.form, shown.size, shown.clipped) == (Form.TEXT, MOST_DECODED + 2, True)
    assert len(shown.value) == 4096
    assert shown.problem == "only keys and values of at most 65,536 bytes are decoded"
    whole = show(JSON, b'"' + b"a" * (MOST_DECODED - 2) + b'"')
    assert whole is not None
    assert whole.form is Form.DECODED


def test_a_character_that_is_cut_is_left_out_and_does_not_make_bytes_of_a_text() -> None:
    found = clip("ü".encode() * 5000)
    assert found is not None
    shown = raw(found._replace(data=b"a" + found.data))
    assert (shown.form, shown.value, shown.clipped) == (Form.TEXT, "a" + "ü" * 2047, True)


def test_a_serde_that_cannot_answer_now_is_asked_once_in_an_answer() -> None:
    asked = []

    def away(data: bytes) -> object:
        asked.append(data)
        raise RetriableError("registry is away")

    decoder, serde = Decoder(1.0, Clock()), Serde("avro", JSON.serialize, away)
    shown = [decoder.show(serde, clip(b"x")) for _ in range(5)]
    assert asked == [b"x"]
    assert {each.problem for each in shown if each} == {"serde avro cannot decode it: RetriableError: registry is away"}


def test_after_its_time_nothing_more_is_decoded() -> None:
    clock = Clock()
    decoder = Decoder(1.0, clock)
    clock.now_s = 1.5
    shown = decoder.show(JSON, clip(b"1"))
    assert shown == Shown(Form.TEXT, "1", 1, problem="the time for decoding is over")


def test_of_headers_the_first_are_kept_with_the_beginning_of_their_names_and_values() -> None:
    found = clipped_headers([("n" * 1000, b"v" * 5000)] * 60)
    assert len(found) == 50
    name, value = found[0]
    assert value is not None
    assert (len(name), len(value.data), value.size) == (250, 1024, 5000)
