"""Uploads under new names, and many transfers at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from secrets import token_hex
from typing import TypeVar

from penstock.checkpoints.file_digests import LocalFile
from penstock.checkpoints.manifest import FileInCheckpoint
from penstock.objects.contracts import ObjectStore

AT_ONCE = 8

A = TypeVar("A")
R = TypeVar("R")


def for_all(call: Callable[[A], R], items: Iterable[A]) -> list[R]:
    """Returns ``call`` of each item, in their order; several run at once. After the first error no further call begins;
    those under way end, then the error is raised."""
    with ThreadPoolExecutor(AT_ONCE, "penstock-checkpoint") as threads:
        calls = [threads.submit(call, item) for item in items]
        wait(calls, return_when=FIRST_EXCEPTION)
        for each in calls:
            each.cancel()
    failed = [each for each in calls if not each.cancelled() and each.exception() is not None]
    return [each.result() for each in failed or calls]


def upload(objects: ObjectStore, prefix: str, file: LocalFile) -> FileInCheckpoint:
    """Upload a file as a new object below ``prefix``."""
    name = f"{prefix}{file.digest}-{token_hex(8)}"
    objects.upload(name, file.path)
    return FileInCheckpoint(file.digest, file.size, name)
