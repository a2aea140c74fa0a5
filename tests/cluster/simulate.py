"""``python -m tests.cluster.simulate --seconds 60 --seed 7``, or ``make simulate-coordinator SECONDS=60 SEED=7``: plays
random schedules on two cores for so long, and counts them.

Each is 60 faults on a world of its own, then new versions of the program among 20 more. Coordinator and dispatcher are
those that run live; actors, group, broker and clock are simulated. Odd seeds play ``exactly_once_v2``, even ones
``at_least_once``. A seed that breaks a promise is reported, and is a test as soon as it is in
``test_exactly_once_simulation.py`` or ``test_coordinator_simulation.py``.
"""

from __future__ import annotations

import asyncio
import random
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import Annotated
from unittest.mock import patch

import typer

from penstock.cluster.coordinator.coordinator import Coordinator
from penstock.cluster.events import Event, Instruction
from tests.cluster import test_coordinator_simulation as at_least_once
from tests.cluster import test_exactly_once_simulation as exactly_once
from tests.cluster.simulated_world import World
from tests.cluster.test_rollout_simulation import rolled_out_among_faults
from tests.cluster.virtual_time import run

_CORES = 2
_ROUNDS = 60
_MORE_ROUNDS = 20


def main(
    seconds: Annotated[float, typer.Option(min=0, help="Seconds for which schedules are played.")] = 60,
    seed: Annotated[int | None, typer.Option(help="First seed. By default a random one, which is printed.")] = None,
) -> None:
    """Play random schedules; exit 1 if any of them breaks a promise."""
    first = random.SystemRandom().randrange(1_000_000_000) if seed is None else seed
    typer.echo(f"seeds from {first}")
    begun = time.monotonic()
    totals: Counter[str] = Counter()
    failures: dict[int, str] = {}
    with ProcessPoolExecutor(_CORES) as pool:
        for played, failed in pool.map(play_for, [first, first + 1], [_CORES] * _CORES, [seconds] * _CORES):
            totals += played
            failures |= failed
    spent = time.monotonic() - begun
    schedules = totals["schedules"]
    typer.echo(
        f"{schedules:,} schedules in {spent:.0f} s, {schedules / spent * 60:,.0f} a minute on {_CORES} cores, "
        f"{schedules / totals['ms of a core'] * _CORES * 60_000:,.0f} were they free: "
        f"of each {_ROUNDS + _MORE_ROUNDS} faults, "
        f"{totals['events'] / schedules:,.0f} events of the coordinator, "
        f"{totals['simulated s'] / schedules:,.0f} simulated seconds"
    )
    for number, error in sorted(failures.items()):
        typer.echo(f"seed {number}: {error}")
    raise typer.Exit(1 if failures else 0)


def play_for(first: int, step: int, seconds: float) -> tuple[Counter[str], dict[int, str]]:
    """Every ``step``-th seed from ``first`` on, and what broke in which."""
    until, begun_s, totals, failures = time.monotonic() + seconds, time.process_time(), Counter[str](), {}
    handle = Coordinator.handle

    def counted(machine: Coordinator, event: Event) -> list[Instruction]:
        totals["events"] += 1
        return handle(machine, event)

    seed = first
    with patch.object(Coordinator, "handle", counted):
        while not totals or time.monotonic() < until:
            try:
                totals["simulated s"] += round(run(schedule(seed)))
            except Exception as error:  # whatever it is, the seed must be reported
                failures[seed] = "".join(traceback.format_exception(error)[-2:])
            totals["schedules"] += 1
            seed += step
    totals["ms of a core"] = round((time.process_time() - begun_s) * 1000)
    return totals, failures


async def schedule(seed: int) -> float:
    """Faults, then rest: every task runs, each once, and nothing that was committed is lost or doubled. Then new
    versions of the program among a third as many faults, and rest on one of them. Returns how many seconds it would
    have taken."""
    world: World
    if seed % 2:
        world = await exactly_once.troubled(seed, _ROUNDS)
        await exactly_once.at_rest(world)
    else:
        world = await at_least_once.troubled(seed, _ROUNDS)
        await at_least_once.at_rest(world)
    await rolled_out_among_faults(world, _MORE_ROUNDS)
    return asyncio.get_running_loop().time()


if __name__ == "__main__":
    typer.run(main)
