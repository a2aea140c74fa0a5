"""Stores whose values are looked at when they are written: would a restart find what the program goes on with?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.common.config import StreamsConfig
from penstock.common.errors import RuleBrokenError
from penstock.common.plain_json import number_of_numpy
from penstock.common.serdes import Serde
from penstock.state.builders import AnyStoreBuilder
from penstock.testing.forms import text
from penstock.topology.graph import Subtopology

Lost = Callable[[RuleBrokenError], object]


def watched_stores(subtopology: Subtopology, config: StreamsConfig, lost: Lost) -> Subtopology:
    """The same program; ``lost`` is told of each value that does not come back from its store's serde as it was."""
    return replace(subtopology, stores=tuple(_watched(store, config, lost) for store in subtopology.stores))


def _watched(store: AnyStoreBuilder, config: StreamsConfig, lost: Lost) -> AnyStoreBuilder:
    serde = store.value_serde or config.default_value_serde
    return store if serde is None else replace(store, value_serde=_watched_serde(store.name, serde, lost))


def _watched_serde(store: str, serde: Serde[Any], lost: Lost) -> Serde[Any]:
    def serialize(value: Any) -> bytes:
        data = serde.serialize(value)
        if difference := _difference(serde, value, data):
            lost(
                RuleBrokenError(
                    f"store {store}: {text(value)} ({type(value).__qualname__}) {difference}: that is what the program "
                    f"would find after a restart. Its serde is {serde.name}: give the store one that brings it back "
                    "(Materialized.with_value_serde(Serdes.json(YourType)), a Serde of your own), or keep plain values"
                )
            )
        return data

    return replace(serde, serialize=serialize)


def _difference(serde: Serde[Any], value: Any, data: bytes) -> str:
    """In which way ``value`` does not survive; empty when it does."""
    try:
        back = serde.deserialize(data)
    except Exception as error:
        return f"cannot be read back ({type(error).__name__}: {error})"
    if _survived(serde, value, back, data):
        return ""
    return f"comes back as {text(back)} ({type(back).__qualname__})"


def _survived(serde: Serde[Any], value: Any, back: Any, data: bytes) -> bool:
    number = number_of_numpy(value)
    if number is not None:
        value = number
    kind = type(value)
    if kind in (bool, int, float) and type(back) in (bool, int, float):
        # 3 under double() comes back as 3.0; a serde of 4 bytes rounds.
        return bool(value == back) or serde.serialize(back) == data
    if type(back) is not kind:
        return False
    if "__eq__" not in {name for cls in kind.__mro__[:-1] for name in vars(cls)}:  # equal means the same object
        return serde.serialize(back) == data
    try:
        return bool(back == value) or repr(back) == repr(value)
    except Exception:  # arrays do not compare to one truth
        return repr(back) == repr(value)
