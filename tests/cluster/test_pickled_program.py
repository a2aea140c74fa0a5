"""A program that cannot travel to the cluster is refused before anything starts, by the name of what cannot."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from ray import cloudpickle

import penstock as ps
from penstock.actors.spec import ApplicationSpec
from penstock.cluster.programs.pickled_program import pickled_program
from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError

LOCK = threading.Lock()


def application(mapper: Callable[[Any], Any], **entries: object) -> ApplicationSpec:
    builder = ps.StreamsBuilder()
    builder.stream("in").map_values(mapper, named="guarded").to("out")
    return ApplicationSpec(builder.build(), StreamsConfig.of({"application.id": "app", **entries}))


def test_a_program_travels_whole() -> None:
    factor = 3
    arrived = cloudpickle.loads(pickled_program(application(lambda value: value * factor)))
    assert arrived.application_id == "app"


def test_the_operator_the_function_and_the_variable_that_cannot_travel_are_named() -> None:
    lock = threading.Lock()

    def guarded(value: object) -> object:
        with lock:
            return value

    with pytest.raises(
        ConfigError,
        match=r"function .*guarded \(.*test_pickled_program\.py, line \d+\) of map_values guarded, which uses lock, "
        r"cannot be pickled: TypeError: .*lock",
    ):
        pickled_program(application(guarded))


def test_a_value_of_the_configuration_that_cannot_travel_is_named_by_its_key() -> None:
    class Handler(ps.ProcessingExceptionHandler):
        lock = threading.Lock()

        def __init__(self) -> None:
            self.held = threading.Lock()

        def handle_error(self, context: ps.ErrorHandlerContext, record: object, error: Exception) -> ps.Response:
            return ps.Response.fail()

    entries = {"processing.exception.handler": Handler()}
    with pytest.raises(ConfigError, match=r"configuration key 'processing\.exception\.handler' cannot be pickled"):
        pickled_program(application(str, **entries))


def test_an_object_that_only_a_node_holds_is_named_by_the_node() -> None:
    class Partitioner:
        def __init__(self) -> None:
            self.held = threading.Lock()

        def __call__(self, topic: str, key: object, value: object, partitions: int) -> int:
            return 0

    builder = ps.StreamsBuilder()
    builder.stream("in").to("out", ps.Produced.as_("written").with_stream_partitioner(Partitioner()))
    spec = ApplicationSpec(builder.build(), StreamsConfig.of({"application.id": "app"}))
    with pytest.raises(ConfigError, match=r"what written was given cannot be pickled"):
        pickled_program(spec)
