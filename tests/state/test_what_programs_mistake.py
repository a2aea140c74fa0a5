"""What is given to stores and their factories by mistake is refused with the store's name and what to give instead."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import numpy
import pytest

import penstock as ps
from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError, SerializationError, TopologyError
from tests.state.windowed_model import Shape
from tests.state.windowed_rig import Rig

HOUR = 3_600_000
S = ps.Stores
SUPPLIERS: dict[str, Any] = {
    "key_value": S.persistent_key_value_store("own"),
    "window": S.persistent_window_store("own", HOUR, HOUR),
    "session": S.persistent_session_store("own", HOUR),
}
FACTORIES: dict[str, tuple[str, Callable[..., Any]]] = {
    "key_value_store_builder": ("key_value", S.key_value_store_builder),
    "timestamped_key_value_store_builder": ("key_value", S.timestamped_key_value_store_builder),
    "window_store_builder": ("window", S.window_store_builder),
    "timestamped_window_store_builder": ("window", S.timestamped_window_store_builder),
    "session_store_builder": ("session", S.session_store_builder),
}


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("given", [*SUPPLIERS, "name"])
def test_a_supplier_of_another_kind_is_refused(factory: str, given: str) -> None:
    wanted, make = FACTORIES[factory]
    supplier = SUPPLIERS.get(given, "own")
    if given == wanted:
        assert make(supplier, ps.Serdes.string(), ps.Serdes.string()).name == "own"
        return
    with pytest.raises(
        TopologyError, match=rf"Stores.{factory} needs a supplier such as Stores.persistent_{wanted}_st"
    ):
        make(supplier, ps.Serdes.string(), ps.Serdes.string())


def test_a_serdes_factory_that_was_not_called_is_refused() -> None:
    with pytest.raises(
        TopologyError, match=r"store own: key_serde must be a Serde, such as Serdes.string\(\), not <func"
    ):
        S.key_value_store_builder(SUPPLIERS["key_value"], ps.Serdes.string, ps.Serdes.long())  # type: ignore[arg-type]


WINDOWS = Shape(HOUR, timestamped=False)
NO_TIMES = [
    (60.0, "float"),
    ("60", "str"),
    (True, "bool"),
    (timedelta(1), "timedelta"),
    (datetime(2026, 1, 1), "datetim"),
]


@pytest.mark.parametrize(("given", "kind"), NO_TIMES)
@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda view, time: view.put("a", "x", time), "window_start"),
        (lambda view, time: view.fetch("a", time), "time"),
        (lambda view, time: view.fetch("a", time, 5), "time_from"),
        (lambda view, time: view.fetch("a", "b", 5, time), "time_to"),
        (lambda view, time: view.fetch_all(0, time), "time_to"),
    ],
)
def test_a_window_store_names_the_argument_that_is_no_time(given: Any, kind: str, call: Any, what: str) -> None:
    rig = Rig(WINDOWS, None)
    with pytest.raises(TypeError, match=rf"store store: {what} must be whole milliseconds since 1970.* \({kind}"):
        call(rig.view, given)
    rig.close()


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda view: view.put(ps.Windowed("a", ps.Window(0.5, 1)), "x"), "the session's start"),  # type: ignore[arg-type]
        (lambda view: view.remove(ps.Windowed("a", ps.Window(0, "1"))), "its end"),  # type: ignore[arg-type]
        (lambda view: view.fetch_session("a", 0, 1.0), "session_end"),
        (lambda view: view.find_sessions("a", None, 1), "earliest_session_end"),
        (lambda view: view.find_sessions("a", "b", 0, "1"), "latest_session_start"),
    ],
)
def test_a_session_store_names_the_argument_that_is_no_time(call: Any, what: str) -> None:
    rig = Rig(Shape(HOUR, sessions=True), None)
    with pytest.raises(TypeError, match=rf"store store: {what} must be whole milliseconds since 1970"):
        call(rig.view)
    rig.close()


@pytest.mark.parametrize("key", ["a", ("a", (0, 1)), ps.Windowed("a", (0, 1))])  # type: ignore[arg-type]
def test_a_session_key_of_another_form_is_refused(key: Any) -> None:
    rig = Rig(Shape(HOUR, sessions=True), None)
    with pytest.raises(TypeError, match=r"store store: a session key is Windowed\(key, Window\(start, end\)\), not"):
        rig.view.put(key, "x")
    rig.close()


def test_numpys_integers_are_times_and_what_java_has_no_room_for_is_none() -> None:
    rig = Rig(WINDOWS, None)
    rig.view.put("a", "x", numpy.int64(60_000))
    assert list(rig.view.fetch("a", numpy.int64(0), 1 << 70)) == [(60_000, "x")]
    with pytest.raises(ValueError, match="store store: a window cannot start before 0 or after"):
        rig.view.put("a", "x", 1 << 64)
    rig.close()


def test_a_plain_value_in_a_timestamped_window_store_is_refused() -> None:
    rig = Rig(Shape(HOUR, timestamped=True), None)
    with pytest.raises(TypeError, match=r"put ValueAndTimestamp\(value, timestamp\), not 3 \(int\)"):
        rig.view.put("a", 3, 0)
    rig.close()


def test_a_value_that_the_serde_refuses_is_told_with_its_window() -> None:
    rig = Rig(Shape(HOUR, window_size_ms=60_000), None)
    with pytest.raises(SerializationError, match=r"the value of key \[a@60000/120000\] cannot be serialised"):
        rig.view.put("a", 3, 60_000)
    rig.close()


def test_the_default_store_of_the_dsl_is_said_elsewhere() -> None:
    with pytest.raises(ConfigError, match=r"'default.dsl.store': say it of each table: Materialized"):
        StreamsConfig.of({"application.id": "x", "default.dsl.store": "in_memory"})
