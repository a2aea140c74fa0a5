"""Leaving out duplicates of a stream, as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from penstock.topology.physical.operators.operator import KEY, VALUE, Operator, called_with


@dataclass(frozen=True)
class Deduplicate(Operator):
    """Forward a record unless one of the same key, at most ``within_ms`` before or after it, has already gone through.

    ``store`` remembers those that went through for ``retention_ms`` of stream time. A record with a
    null key is forwarded.
    """

    store: str
    within_ms: int
    retention_ms: int

    keeps_key = keeps_value = keeps_source = True
    stores_by_key = ()

    @property
    @override
    def stores(self) -> tuple[str, ...]:
        return (self.store,)


@dataclass(frozen=True)
class DeduplicateById(Deduplicate):
    """Like :class:`Deduplicate`, for the key and the id of ``id_extractor``; a record whose id is None is forwarded."""

    id_extractor: Callable[..., Any] = field(kw_only=True, metadata=called_with(KEY, VALUE))
    with_key: bool = field(default=False, kw_only=True)

    call = "deduplicate"
