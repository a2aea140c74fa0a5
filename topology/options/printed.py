"""``Printed``: the options of ``KStream.print``."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from penstock.common.errors import TopologyError
from penstock.topology.arity import checked_function
from penstock.topology.options.checks import check_name

K = TypeVar("K")
V = TypeVar("V")


def key_and_value(key: object, value: object) -> str:
    """Returns a record as Kafka Streams shows it: ``key, value``, and None as ``null``."""
    return f"{'null' if key is None else key}, {'null' if value is None else value}"


@dataclass(frozen=True)
class Printed(Generic[K, V]):
    """The place and form in which records are printed: ``[label]: key, value``. Mirrors ``Printed``.

    ``path`` None is standard output. ``label`` None is the name of the node that feeds the printer. ``mapper`` of (key,
    value) returns the text after the label. ``name`` names the node.
    """

    path: str | None = None
    label: str | None = None
    mapper: Callable[[K, V], str] = key_and_value
    name: str | None = None

    def __post_init__(self) -> None:
        if self.label is not None and not isinstance(self.label, str):
            raise TopologyError(f"Printed: label must be a string, not {self.label!r}")
        checked_function(self.mapper, "Printed: mapper", "key", "value")
        check_name(self.name)

    @staticmethod
    def to_sys_out() -> Printed[Any, Any]:
        """Print to standard output. In a live application it is that of the stream actor: Ray keeps it among its logs,
        and shows it where the application was started."""
        return Printed()

    @staticmethod
    def to_file(path: str | os.PathLike[str]) -> Printed[Any, Any]:
        """Print to a file, which is emptied by this call. Each task adds its lines, on the node where it runs.

        Raises TopologyError for an empty path and for a file that cannot be written.
        """
        text = os.fspath(path)
        if not text.strip():
            raise TopologyError("Printed.to_file: the path may not be empty")
        absolute = Path(text).absolute()  # a task runs in another folder
        try:
            absolute.write_bytes(b"")
        except OSError as error:
            raise TopologyError(f"Printed.to_file: {absolute} cannot be written: {error.strerror}") from error
        return Printed(str(absolute))

    def with_label(self, label: str) -> Printed[K, V]:
        """Returns a copy with a label before each record."""
        return replace(self, label=label)

    def with_key_value_mapper(self, mapper: Callable[[K, V], str]) -> Printed[K, V]:
        """Returns a copy with the text that ``mapper(key, value)`` makes of each record."""
        return replace(self, mapper=mapper)

    def with_name(self, name: str) -> Printed[K, V]:
        """Returns a copy with a name for the node."""
        return replace(self, name=name)
