"""Operators that only versioned tables have."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override

from penstock.topology.physical.operators.join import StreamTableJoin


@dataclass(frozen=True, kw_only=True)
class BufferedStreamTableJoin(StreamTableJoin):
    """A join whose stream records wait in the store ``buffer`` until the grace period has passed, then see what the
    table held at their time. One that is later than that is joined at once."""

    buffer: str

    keeps_source = True

    @property
    @override
    def stores(self) -> tuple[str, ...]:
        return (self.buffer, *self.table.stores)

    @property
    @override
    def stores_by_key(self) -> tuple[str, ...]:
        return self.table.stores
