"""Faults inside of the application's processes: objects of a program are unpickled in each of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Planted:
    """A function of the program that changes nothing; ``plant`` is called in every process that gets the program."""

    def __init__(self, plant: Callable[[], None]) -> None:
        self._plant = plant

    def __call__(self, value: str) -> str:
        return value

    def __reduce__(self) -> tuple[Callable[..., Planted], tuple[Any, ...]]:
        return _arrived, (self._plant,)


def _arrived(plant: Callable[[], None]) -> Planted:
    plant()
    return Planted(plant)


class Impatient:
    """Lets an actor count as lost after ``silent_s`` of silence, instead of after 45 s."""

    def __init__(self, silent_s: float) -> None:
        self._silent_s = silent_s

    def __call__(self) -> None:
        from penstock.cluster.watchers import silence

        vars(silence)["PROCESS_LOST_S"] = self._silent_s


class Watchful:
    """Lets a coordinator, or HTTP server, be ended after ``silent_s`` of silence, instead of after 45 s."""

    def __init__(self, silent_s: float) -> None:
        self._silent_s = silent_s

    def __call__(self) -> None:
        from penstock.actors.process import process_watch

        vars(process_watch)["PROCESS_LOST_S"] = self._silent_s


class CrashesAfterSaving:
    """Ends the coordinator's process as soon as it has written down how many actors are wanted; as often as there are
    files in ``armed``."""

    def __init__(self, armed: Path) -> None:
        self._armed = armed

    def __call__(self) -> None:
        from penstock.cluster.scaling import wanted_count

        save = wanted_count.save
        if save.__name__ == "and_crash":
            return

        def and_crash(actor_id: str, wanted: wanted_count.WantedCount) -> None:
            save(actor_id, wanted)
            if disarmed(self._armed):
                os._exit(1)

        wanted_count.save = and_crash


def disarmed(armed: Path) -> bool:
    """Removes a file from ``armed``; returns True if there was one. Each file makes it True for one process only."""
    for file in armed.iterdir():
        try:
            file.unlink()
        except FileNotFoundError:
            continue
        return True
    return False


def once(armed: Path, do: Callable[[], object]) -> Callable[[str], str]:
    """Returns work of a program that calls ``do`` at the next record once ``armed`` has a file."""

    def work(value: str) -> str:
        if any(armed.iterdir()) and disarmed(armed):
            do()
        return value

    return work


def sleep_for(seconds: float) -> Callable[[], None]:
    """Returns a function that blocks the thread that runs the tasks."""
    return lambda: time.sleep(seconds)


def gigabytes(many: int) -> Callable[[], None]:
    """Returns a function that allocates and fills this much memory for a while."""

    def allocate() -> None:
        taken = []
        for _ in range(many * 10):
            taken.append(bytearray(os.urandom(1000) * 100_000))
            time.sleep(0.1)
        time.sleep(10)

    return allocate
