"""Rows of JSON Lines: each line is an object of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import IO, Any

from typing_extensions import override

from penstock.common.plain_json import read_json
from penstock.pipeline.ingest.contracts import Rows

LONGEST_LINE = 16 << 20
"""Most bytes of a line without its end. By default Kafka takes records of about 1 MB."""
_PIECE = 1 << 20
ONE_OBJECT = "JSON Lines has one object on each line (jq -c '.[]' converts a JSON array)"
"""Advice for a file that is not JSON Lines."""


class JsonRows(Rows):
    """:class:`~penstock.pipeline.ingest.contracts.Rows` of lines. A row may lack a column that others have."""

    def __init__(self, first: int, lines: Sequence[bytes]) -> None:
        self.first = first
        self.refused: dict[int, str | None] = {}
        self._rows = [self._read(index, line) for index, line in enumerate(lines)]

    def _read(self, index: int, line: bytes) -> dict[str, Any]:
        if _is_too_long(line):
            self.refused[index] = f"its line has more than {LONGEST_LINE >> 20} MB; {ONE_OBJECT}"
            return {}
        try:
            row = read_json(line)
        except Exception as error:  # broken JSON or UTF-8, or nesting without end
            self.refused[index] = f"it is not JSON: {error}" if line.strip() else None
            return {}
        if isinstance(row, dict):
            return row
        kind = f"a list; {ONE_OBJECT}" if isinstance(row, list) else "no object"
        self.refused[index] = f"it is {kind}"
        return {}

    @override
    def __len__(self) -> int:
        return len(self._rows)

    @override
    def values(self, column: str) -> Sequence[Any]:
        try:
            return [row[column] for row in self._rows]
        except KeyError:
            for index, row in enumerate(self._rows):
                if column not in row:
                    self.refused.setdefault(index, f"it has no field {column!r}")
            return [row.get(column) for row in self._rows]

    @override
    def plain(self, column: str) -> Sequence[Any]:
        return self.values(column)

    @override
    def content(self, column: str) -> Sequence[Any]:
        return self.values(column)

    @override
    def timestamps(self, column: str) -> Sequence[Any]:
        return self.values(column)

    @override
    def objects(self, columns: Sequence[str]) -> Sequence[Any]:
        if not columns:
            return self._rows
        cells = [self.values(name) for name in columns]
        return [dict(zip(columns, row, strict=True)) for row in zip(*cells, strict=True)]


def json_lines(lines: IO[bytes], at_once: int, skip: int, bytes_at_once: int = sys.maxsize) -> Iterator[JsonRows]:
    """Yields the rows of ``lines`` behind the first ``skip``, ``at_once`` at a time, or fewer: as soon as they have
    ``bytes_at_once``."""
    bounded = _bounded(lines)
    first = sum(1 for _ in islice(bounded, skip))
    while some := _next_of(bounded, at_once, bytes_at_once):
        yield JsonRows(first, some)
        first += len(some)


def _bounded(lines: IO[bytes]) -> Iterator[bytes]:
    """Yields the lines. Of a line that is too long it yields the beginning alone, which is still too long."""
    while line := lines.readline(LONGEST_LINE + len(b"\r\n")):
        yield line
        while not line.endswith(b"\n") and (line := lines.readline(_PIECE)):
            continue


def _is_too_long(line: bytes) -> bool:
    # The end is removed only if the result depends on it, because that copies the line.
    return len(line) > LONGEST_LINE and len(line.removesuffix(b"\n").removesuffix(b"\r")) > LONGEST_LINE


def _next_of(lines: Iterable[bytes], most: int, bytes_at_once: int) -> list[bytes]:
    some, size = [], 0
    for line in islice(lines, most):
        some.append(line)
        size += len(line)
        if size >= bytes_at_once:
            break
    return some
