"""The operators, besides ``process`` itself, that run a processor of the user's, and ``print``, as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from penstock.topology.physical.operator import KEY, VALUE, Operator, called_with
from penstock.topology.physical.operators import Process


@dataclass(frozen=True)
class AddedProcess(Process):
    """A processor of a topology that is built by hand."""

    call = "add_processor"


@dataclass(frozen=True)
class ReadOnlyStoreProcess(Process):
    """The processor that keeps a store whose topic is its changelog; every other one may only read that store."""

    call = "add_read_only_state_store"
    keeps_source_store = True


@dataclass(frozen=True)
class ProcessValues(Process):
    """``supplier()`` makes a user's :class:`~penstock.topology.processor_api.fixed_key_processor.FixedKeyProcessor`."""

    call = "process_values"
    keeps_key = True

    @property
    @override
    def stores_by_key(self) -> tuple[str, ...]:
        # The keys under which it looks are not known.
        return ()


@dataclass(frozen=True)
class Print(Operator):
    """Print ``[label]: text`` for each record, where ``mapper(key, value)`` gives the text: a line of the file at
    ``path``, or of standard output."""

    label: str
    path: str | None
    mapper: Callable[[Any, Any], object] = field(metadata=called_with(KEY, VALUE))

    call = "print"
    keeps_key = keeps_value = True
