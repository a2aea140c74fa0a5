"""``python -m tests.simulation --seconds 60 --seed 7``, or ``make simulate``: as many runs as there is time for.

``--planted`` plants each known mistake in turn and plays seeds until one finds it.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from random import SystemRandom
from typing import Annotated
from unittest.mock import patch

import typer

from tests.simulation.faults import FAULTS
from tests.simulation.mistakes import MISTAKES
from tests.simulation.play import Result, play, quiet
from tests.simulation.setting import ALL_FROM_THE_SEED, Choice, setting_of

_TRACE_LINES = 60
_SEEDS_FOR_A_MISTAKE = 500
_AT_ONCE = 10
_LONGEST_CPU_S = 300
_MOST_BYTES = 6 << 30


@contextmanager
def planted(mistake: str | None) -> Iterator[None]:
    """Plants a mistake for as long as the context lasts."""
    with ExitStack() as patches:
        if mistake is not None:
            MISTAKES[mistake].plant(
                lambda of, name, value: patches.enter_context(patch.object(of, name, value)) and None
            )
        yield


class EndlessError(BaseException):
    """A run took more CPU time than any should. Not an ``Exception``, some of which the played code catches."""


def limit_memory() -> None:
    """Limit memory, so that a run that takes all of it fails, instead of the machine."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))


@contextmanager
def limited_time() -> Iterator[None]:
    """Raise EndlessError where the run is, when it has taken too much CPU time."""

    def give_up(*_: object) -> None:
        raise EndlessError(f"has taken {_LONGEST_CPU_S} s of CPU")

    signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, _LONGEST_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def play_one(seed: int, mistake: str | None, choice: Choice = ALL_FROM_THE_SEED) -> tuple[Result, float]:
    """One run, and the CPU seconds it took."""
    quiet()
    gc.collect()
    gc.freeze()  # what a run leaves is small: only that is looked at when memory is collected
    begun_s = time.process_time()
    try:
        with planted(mistake), limited_time():
            result = play(seed, choice)
    except EndlessError as error:
        result = Result(seed, str(error), [traceback.format_exc()], 0.0, 0)
    return result, time.process_time() - begun_s


def main(
    seconds: Annotated[float, typer.Option(min=0, help="New runs begin for so long.")] = 60,
    seed: Annotated[int | None, typer.Option(help="The first one; by default a random one, which is printed.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="At most so many.")] = 1_000_000,
    processes: Annotated[int, typer.Option(min=1)] = 2,
    only: Annotated[str, typer.Option(help="The faults that come, with commas between them; by default all.")] = "",
    mistakes: Annotated[bool, typer.Option("--planted", help="Find each known mistake.")] = False,
    mistake: Annotated[str | None, typer.Option(help="Plant only this one.")] = None,
) -> None:
    """Play random runs; exit 1 if one of them breaks a promise, or if a planted mistake is not found."""
    first = SystemRandom().randrange(1_000_000_000) if seed is None else seed
    typer.echo(f"seeds from {first}")
    with ProcessPoolExecutor(processes, initializer=limit_memory) as pool:
        if mistakes or mistake is not None:
            missed = [name for name in ([mistake] if mistake else MISTAKES) if not _find(pool, name, first, seeds)]
            raise typer.Exit(1 if missed else 0)
        choice = Choice(faults=tuple(only.split(",")) if only else ())
        raise typer.Exit(_play_all(pool, choice, first, seeds, seconds, processes))


def _find(pool: ProcessPoolExecutor, mistake: str, first: int, seeds: int) -> bool:
    """True if one of the seeds finds it."""
    among, choice = range(first, first + min(seeds, _SEEDS_FOR_A_MISTAKE)), MISTAKES[mistake].choice
    numbers = [number for number in among if MISTAKES[mistake].shows(setting_of(number, choice, FAULTS))]
    for begin in range(0, len(numbers), _AT_ONCE):
        for result, _ in pool.map(partial(play_one, mistake=mistake, choice=choice), numbers[begin : begin + _AT_ONCE]):
            if result.violation is not None and play_one(result.seed, None, choice)[0].violation is None:
                typer.echo(f"{mistake}: found by seed {result.seed}: {result.violation[:200]}")
                return True
    typer.echo(f"{mistake}: not found by the {len(numbers)} of {len(among)} seeds that could show it")
    return False


def _play_all(pool: ProcessPoolExecutor, choice: Choice, first: int, seeds: int, seconds: float, processes: int) -> int:
    begun_s, totals, failures = time.monotonic(), Counter[str](), 0
    at_once = processes * 5
    for begin in range(first, first + seeds, at_once):
        numbers = range(begin, min(begin + at_once, first + seeds))
        for result, cpu_s in pool.map(partial(play_one, mistake=None, choice=choice), numbers):
            totals.update(runs=1, virtual_ms=round(result.virtual_s * 1000), cpu_ms=round(cpu_s * 1000))
            if result.violation is not None:
                failures += 1
                typer.echo(f"seed {result.seed}: {result.violation[:1000]}")
                typer.echo("\n".join(f"    {line[:200]}" for line in result.trace[-_TRACE_LINES:]))
        if time.monotonic() - begun_s >= seconds:
            break
    spent_s, cpu_s = time.monotonic() - begun_s, totals["cpu_ms"] / 1000
    typer.echo(
        f"{totals['runs']:,} seeds in {spent_s:.0f} s, {totals['runs'] / spent_s * 60:.0f} a minute, "
        f"{totals['runs'] / cpu_s * 60:.0f} a minute of one core; "
        f"{totals['virtual_ms'] / 60_000:.0f} minutes of cluster time, "
        f"{totals['virtual_ms'] / totals['cpu_ms']:.0f} s in a second of CPU; {failures} with a violation"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets of texts is part of a run
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    typer.run(main)
