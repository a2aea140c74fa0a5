"""The operators of global tables and stores as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from penstock.topology.physical.operators.operator import KEY, TABLE_VALUE, VALUE, Operator, WithFunctions, called_with
from penstock.topology.physical.operators.process import Process


@dataclass(frozen=True)
class KeySelector(WithFunctions):
    """Selects the key of a global table that a record is joined with: ``selector(value)``, or with the key in front if
    ``with_key``."""

    selector: Callable[..., Any] = field(metadata=called_with(KEY, VALUE))
    with_key: bool = True

    call = "key_selector of join"


@dataclass(frozen=True)
class StreamGlobalTableJoin(Operator):
    """``joiner(left, right)``, the stream's key in front when ``with_key``; ``left`` keeps records without a match.

    A null value is dropped and counted; a selected key that is null too, unless ``left``. ``global_store`` is none of
    the ``stores`` of a task.
    """

    global_store: str
    key_selector: KeySelector
    joiner: Callable[..., Any] = field(metadata=called_with(KEY, VALUE, TABLE_VALUE))
    with_key: bool = False
    left: bool = False

    keeps_key, keeps_value = True, False

    @property
    @override
    def call(self) -> str:
        return "left_join" if self.left else "join"


@dataclass(frozen=True)
class GlobalProcess(Process):
    """The user's processor that keeps a global store."""

    call = "add_global_store"
    keeps_source_store = True
