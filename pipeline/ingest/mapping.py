"""The mapping from the columns of a row to a record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.common.errors import ConfigError
from penstock.common.serdes import Serde, Serdes

_STRING, _JSON = Serdes.string(), Serdes.json()

Partition = Callable[[str, Any, Any, int], "int | None"]
"""``(topic, key, value, partitions)`` to a partition, or None for Kafka's default: as ``StreamPartitioner``."""


@dataclass(frozen=True)
class RecordMapping:
    """The columns that become key, value, headers, timestamp and partition of a record, and the serdes.

    ``value_columns``: one column is the value itself; several make an object with these fields, none an object with all
    columns. Without ``key_column`` the key is null, without ``timestamp_column`` the timestamp is the time of writing.
    ``headers``: pairs of the header's name and the column. Without ``partition_column`` and ``partitioner`` the
    partition is that of murmur2.
    """

    topic: str
    partitions: int
    key_column: str | None = None
    key_serde: Serde[Any] = _STRING
    value_columns: tuple[str, ...] = ()
    value_serde: Serde[Any] = _JSON
    timestamp_column: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    partition_column: str | None = None
    partitioner: Partition | None = None

    def __post_init__(self) -> None:
        if self.partition_column is not None and self.partitioner is not None:
            raise ConfigError("give either a partition column or a partitioner")
        if self.value_column is None and self.value_serde.name in _OF_ONE_COLUMN:
            raise ConfigError(
                f"the serde {self.value_serde.name} takes one column, and the value is an object of "
                f"{'these' if self.value_columns else 'all'} columns: give one --value-column, or --value json"
            )

    @property
    def value_column(self) -> str | None:
        """The column that is the value; None if the value is an object."""
        return self.value_columns[0] if len(self.value_columns) == 1 else None

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns that are read; None for all."""
        return self.named_columns if self.value_columns else None

    @property
    def named_columns(self) -> tuple[str, ...]:
        """The columns that the mapping names."""
        single = (self.key_column, self.timestamp_column, self.partition_column)
        named = [*self.value_columns, *(column for _, column in self.headers), *(each for each in single if each)]
        return tuple(dict.fromkeys(named))

    def settings(self) -> dict[str, str]:
        """Returns what must be the same in all runs of an ingest, by the names of the command's options."""
        partitioner = self.partitioner
        given = {
            "--topic": self.topic,
            "--key-column": self.key_column,
            "--key": self.key_serde.name,
            "--value-column": ", ".join(self.value_columns),
            "--value": self.value_serde.name,
            "--timestamp-column": self.timestamp_column,
            "--header-column": ", ".join(f"{name}={column}" for name, column in self.headers),
            "--partition-column": self.partition_column,
            "--partitioner": partitioner and f"{partitioner.__module__}:{getattr(partitioner, '__qualname__', '')}",
        }
        return {name: value for name, value in given.items() if value}


_OF_ONE_COLUMN = frozenset(
    {"string", "bytes", "short", "integer", "long", "float", "double", "boolean", "uuid", "void"}
)
