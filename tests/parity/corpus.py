"""The cases that are kept, file by file."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import orjson

FILES = ("golden.jsonl.gz", "more.jsonl.gz")


def read(file: str) -> list[dict[str, Any]]:
    """The cases of one file."""
    lines = gzip.decompress(Path(__file__).with_name(file).read_bytes()).splitlines()
    return [orjson.loads(line) for line in lines]


def write(file: str, cases: list[dict[str, Any]]) -> None:
    """Replace a file; the same cases make the same bytes."""
    lines = b"".join(orjson.dumps(case) + b"\n" for case in cases)
    Path(__file__).with_name(file).write_bytes(gzip.compress(lines, mtime=0))
