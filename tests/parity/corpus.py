"""The cases that are kept, file by file."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path
from typing import Any

import orjson

_FOLDER = Path(__file__).parent

FOUND = "found.jsonl"
"""Cases that random play found, each made small."""
BY_HAND = "by_hand.jsonl.gz"
"""Cases written for the Processor API: topologies by hand, schedules, headers, shared stores."""
TABLES = "tables.jsonl.gz"
"""Scenarios in rows and columns: every kind of join, window and suppression, each over the same few inputs."""
DSL = ("golden.jsonl.gz", "more.jsonl.gz", FOUND)
"""Cases of the DSL that show one shape or several."""
FILES = (*DSL, BY_HAND, TABLES)


def read(file: str) -> list[dict[str, Any]]:
    """Returns the cases of one file. A process has each case once: a dozen test files look for some of them."""
    return list(_cases(file))


@cache
def _cases(file: str) -> tuple[dict[str, Any], ...]:
    path = _FOLDER / file
    lines = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return tuple(orjson.loads(line) for line in lines.splitlines())


def write(file: str, cases: list[dict[str, Any]]) -> None:
    """Replace a file; the same cases make the same bytes."""
    path = _FOLDER / file
    lines = b"".join(orjson.dumps(case) + b"\n" for case in cases)
    path.write_bytes(gzip.compress(lines, mtime=0) if path.suffix == ".gz" else lines)
    _cases.cache_clear()
