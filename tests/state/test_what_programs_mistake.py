"""Wrong arguments of stores and their factories are refused with the store's name and what to give instead."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import numpy
import pytest

import penstock as ps
from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError, SerializationError, TopologyError
from penstock.state.contracts import StateStoreContext
from penstock.state.disk.memory import InMemoryTaskStores
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


def a_timestamped_store() -> Any:
    text = ps.Serdes.string()
    builder = S.timestamped_key_value_store_builder(SUPPLIERS["key_value"], text, text).with_logging_disabled()
    stores = InMemoryTaskStores([builder])
    return builder.open(StateStoreContext(stores.store("own"), None, False, lambda: 0, lambda: None)).view()


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


# A text of two letters, a pair and a list of two could all be taken apart as value and time.
@pytest.mark.parametrize("given", ["xy", "x", 3, ("v", 7), ["v", 7], ps.ValueTimestampHeaders("v", 7)])
def test_a_plain_value_in_a_timestamped_key_value_store_is_refused(given: Any) -> None:
    view = a_timestamped_store()
    for put in (view.put, view.put_if_absent, lambda key, value: view.put_all([(key, value)])):
        with pytest.raises(TypeError, match=r"own is a timestamped key-value store: put ValueAndTimestamp\(value, ti"):
            put("a", given)
    assert list(view.all()) == []


@pytest.mark.parametrize("time", [None, "7", 1.5, True])
def test_a_timestamp_that_is_no_whole_number_of_ms_is_refused(time: Any) -> None:
    view = a_timestamped_store()
    with pytest.raises(TypeError, match="store own: a timestamp must be whole milliseconds since 1970"):
        view.put("a", ps.ValueAndTimestamp("v", time))
    view.put("a", ps.ValueAndTimestamp("v", numpy.int64(7)))  # type: ignore[arg-type]  # numpy's integers are times
    assert view.get("a") == ps.ValueAndTimestamp("v", 7)


@pytest.mark.parametrize("given", ["rocksDB", "in_memory", "memory", None, True])
@pytest.mark.parametrize("made", [ps.Materialized.as_("own"), ps.Deduplicated.as_("own")])
def test_a_type_of_store_that_is_only_text_is_refused(given: Any, made: Any) -> None:
    message = rf"{type(made).__name__}: store_type must be StoreType.ROCKS_DB or StoreType.IN_MEMORY, not {given!r}"
    with pytest.raises(TopologyError, match=message):
        made.with_store_type(given)


def test_a_value_that_the_serde_refuses_is_reported_with_its_window() -> None:
    rig = Rig(Shape(HOUR, window_size_ms=60_000), None)
    with pytest.raises(SerializationError, match=r"the value of key \[a@60000/120000\] cannot be serialised"):
        rig.view.put("a", 3, 60_000)
    rig.close()


def test_the_default_store_of_the_dsl_is_configured_elsewhere() -> None:
    with pytest.raises(ConfigError, match=r"'default.dsl.store': set it for each table: Materialized"):
        StreamsConfig.of({"application.id": "x", "default.dsl.store": "in_memory"})
