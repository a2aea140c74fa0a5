"""The operators that run a user's processor, and ``print``, as values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Self

from typing_extensions import override

from penstock.topology.physical.operators.operator import (
    KEY,
    VALUE,
    Operator,
    called_with,
)
from penstock.topology.processor_api.processor import ProcessorSupplier


@dataclass(frozen=True)
class Process(Operator):
    """A user's :class:`~penstock.topology.processor_api.processor.Processor`; each task has one of ``supplier()``."""

    supplier: ProcessorSupplier[Any, Any, Any, Any] = field(metadata=called_with())
    store_names: tuple[str, ...] = ()
    by_wrapper: bool = False
    """True if the supplier is one that a wrapper has returned."""

    call = "process"
    keeps_key = keeps_value = False
    sees_key = sees_value = True
    runs_user_objects = True

    @property
    @override
    def stores(self) -> tuple[str, ...]:
        return self.store_names

    @property
    @override
    def wrapped(self) -> bool:
        return self.by_wrapper

    def with_stores(self, names: Iterable[str]) -> Self:
        """Returns a copy with more stores."""
        return replace(self, store_names=tuple(dict.fromkeys((*self.store_names, *names))))


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
