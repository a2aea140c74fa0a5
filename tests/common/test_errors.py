"""Errors name the place where they happened, and lose nothing on their way from one process to another."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from ray import cloudpickle

from penstock.common import errors
from penstock.common.errors import (
    BufferFullError,
    DeserializationError,
    InvalidTimestampError,
    ProcessingError,
    ProductionError,
    RecordError,
    RecordRefusedError,
    StateStoreCorruptError,
    StateStoreDiskError,
    StateStoreError,
    StateStoreLockedError,
    StreamsError,
)

ALL: list[type[StreamsError]] = [
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, StreamsError)
]
OF_RECORDS = [kind for kind in ALL if issubclass(kind, RecordError)]
PLACE: dict[str, Any] = {"operator": "op", "topic": "in", "partition": 0, "offset": 0, "key": ("k", 1)}

pickler: Any = cloudpickle  # Ray's has no types


def made(kind: type[StreamsError]) -> StreamsError:
    if issubclass(kind, RecordError):
        return kind("it failed", **PLACE)
    return kind("it failed")


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("travel", [pickle, pickler], ids=["pickle", "cloudpickle"])
def test_an_error_arrives_in_another_process_with_all_its_fields(kind: type[StreamsError], travel: Any) -> None:
    sent = made(kind)
    arrived = travel.loads(travel.dumps(sent))
    assert type(arrived) is kind
    assert (str(arrived), arrived.args, vars(arrived)) == (str(sent), sent.args, vars(sent))


@pytest.mark.parametrize("kind", OF_RECORDS, ids=lambda kind: kind.__name__)
def test_an_error_of_a_record_has_the_fields_it_was_given(kind: type[RecordError]) -> None:
    fields = {name: value for name, value in vars(made(kind)).items() if name != "__notes__"}
    assert fields == {"what": "it failed", **PLACE}


def test_an_error_can_be_copied() -> None:
    assert vars(copy.copy(made(ProcessingError))) == vars(made(ProcessingError))


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ({}, "it failed"),
        ({"operator": "op"}, "it failed [operator op]"),
        ({"topic": "in", "partition": 0, "offset": 0}, "it failed [topic in, partition 0, offset 0]"),
        ({"topic": "out", "partition": 1}, "it failed [topic out, partition 1]"),
        ({"topic": "out", "partition": -1}, "it failed [topic out]"),
        ({"key": b""}, "it failed [key b'']"),
        ({"key": 0}, "it failed [key 0]"),
        ({"operator": "op", "topic": "in", "partition": 1, "offset": 2, "key": "k"},
         "it failed [operator op; topic in, partition 1, offset 2; key 'k']"),
    ],
)  # fmt: skip
def test_the_message_names_all_that_is_known_of_the_record(place: dict[str, Any], message: str) -> None:
    assert str(RecordError("it failed", **place)) == message


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_error_keeps_its_message_and_is_a_streams_error(kind: type[StreamsError]) -> None:
    assert str(made(kind)).startswith("it failed")
    assert issubclass(kind, StreamsError)
    assert kind.__doc__


def test_errors_are_caught_by_what_they_have_in_common() -> None:
    assert set(OF_RECORDS) == {
        BufferFullError,
        RecordError,
        DeserializationError,
        InvalidTimestampError,
        ProcessingError,
        ProductionError,
        RecordRefusedError,
    }
    assert {kind for kind in ALL if issubclass(kind, StateStoreError)} == {
        StateStoreError,
        StateStoreLockedError,
        StateStoreCorruptError,
        StateStoreDiskError,
    }


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("sent", [pickle, pickler, None], ids=["pickle", "cloudpickle", "here"])
def test_a_traceback_names_the_command_that_explains_it_once(kind: type[StreamsError], sent: Any) -> None:
    error = made(kind)
    if sent is not None:
        error = sent.loads(sent.dumps(error))
    expected = [] if kind.__name__ in ("StreamsError", "ConfigError") else [f"penstock explain {kind.__name__}"]
    assert getattr(error, "__notes__", []) == expected
