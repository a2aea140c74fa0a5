"""Stores whose values are checked when they are written: a restart must find what the program continues with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.common.errors import RuleBrokenError
from penstock.common.serdes import Serde
from penstock.common.shown import shown_with_type
from penstock.state.builders import AnyStoreBuilder
from penstock.state.rows.round_trip import difference, misfit
from penstock.tasks.program import TaskProgram

_OTHER_SERDE = (
    "give the store one that brings it back (Materialized.with_value_serde(Serdes.json(YourType)), a Serde of your "
    "own), or keep plain values"
)

Lost = Callable[[RuleBrokenError], object]


def tracked_serdes(program: TaskProgram, lost: Lost) -> TaskProgram:
    """Returns the program with watched serdes; ``lost`` gets each value that does not come back as it was."""
    return replace(program, stores={name: _tracked(store, lost) for name, store in program.stores.items()})


def _tracked(store: AnyStoreBuilder, lost: Lost) -> AnyStoreBuilder:
    serde = store.value_serde
    return store if serde is None else replace(store, value_serde=_tracked_serde(store.name, serde, lost))


def _tracked_serde(store: str, serde: Serde[Any], lost: Lost) -> Serde[Any]:
    def serialize(value: Any) -> bytes:
        data = serde.serialize(value)
        if why := difference(serde, value, data):
            lost(
                RuleBrokenError(
                    f"store {store}: {shown_with_type(value)} {why}: that is what the program would find after a "
                    f"restart. Its serde is {serde.name}: {misfit(serde, value) or _OTHER_SERDE}"
                )
            )
        return data

    return replace(serde, serialize=serialize)
