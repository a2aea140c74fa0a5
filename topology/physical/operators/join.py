"""The join of a stream with a table, as a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from penstock.topology.physical.operators.operator import (
    KEY,
    TABLE_VALUE,
    VALUE,
    Operator,
    ValueGetter,
    called_with,
)


@dataclass(frozen=True)
class StreamTableJoin(Operator):
    """``joiner(left, right)``, with the key in front when ``with_key``; ``left`` keeps stream records without a match.

    A null value is dropped and counted; a null key too, unless ``left``.
    """

    table: ValueGetter
    joiner: Callable[..., Any] = field(metadata=called_with(KEY, VALUE, TABLE_VALUE))
    with_key: bool = False
    left: bool = False

    keeps_key, keeps_value = True, False

    @property
    @override
    def call(self) -> str:
        return "left_join" if self.left else "join"

    @property
    @override
    def stores(self) -> tuple[str, ...]:
        return self.table.stores
