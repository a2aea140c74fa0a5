"""Measures the silence of each task when a new version is deployed: ``python -m benchmarks.rollout``.

A Ray of several nodes with one stream actor each, and a store of a given size. Records are sent at an even pace all
the time. Measured is the longest time without a result, of each partition.
"""

from __future__ import annotations

import statistics
import time
from itertools import pairwise
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.deployed import clients_of, create_topics
from benchmarks.deployment import Setting, source_of
from benchmarks.failover import VALUE_BYTES, fill
from benchmarks.measure import BenchmarkError
from benchmarks.penstock_deployment import PenstockDeployment, penstock_deployment
from benchmarks.pulse import Pulse
from benchmarks.report import surroundings
from benchmarks.rig import broker

_STEADY_S = 5.0


def main(
    megabytes: Annotated[int, typer.Option(min=1, help="Size of the store.")] = 300,
    tasks: Annotated[int, typer.Option(min=1, help="Partitions of the input.")] = 6,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes of Ray, each with one stream actor.")] = 3,
    cpus: Annotated[int, typer.Option(min=1, help="CPUs of each node; with 1, old actors make room.")] = 2,
    standbys: Annotated[int, typer.Option(min=0, help="num.standby.replicas, fewer than nodes.")] = 0,
    guarantee: Annotated[str, typer.Option(help="processing.guarantee")] = "exactly_once_v2",
    per_second: Annotated[int, typer.Option(min=10, help="Records that are sent to all partitions.")] = 600,
    deploys: Annotated[int, typer.Option(min=1, help="Number of deploys of a new version.")] = 3,
) -> None:
    """Measure how long each task gives no results while a new version takes over."""
    console, output = Console(), "rollout"
    try:
        with broker(console) as (work, address):
            clients = clients_of(address, guarantee)
            create_topics(clients, output, tasks)
            fill(clients, source_of(output), megabytes * 1_000_000 // VALUE_BYTES)
            setting = Setting(tasks, nodes, standbys, guarantee)
            with penstock_deployment(work, address, setting, output, cpus=cpus) as deployment:
                deployment.until_at_rest()
                pulse = Pulse(clients, source_of(output), output, tasks, per_second)
                try:
                    silences = [_roll_out(console, deployment, pulse, number) for number in range(1, deploys + 1)]
                finally:
                    pulse.close()
    except BenchmarkError as error:
        console.print(str(error), style="red", markup=False, highlight=False)
        raise typer.Exit(1) from None
    size = f"{megabytes} MB, {tasks} tasks, {nodes} nodes of {cpus} CPUs, {standbys} standbys, {guarantee}"
    every = sorted(seconds for each in silences for seconds in each)
    console.print(f"{size}, {per_second}/s, {deploys} deploys", highlight=False)
    console.print(f"silent: median {statistics.median(every):.2f} s, longest {every[-1]:.2f} s", highlight=False)
    for name, value in surroundings(None).items():
        console.print(f"{name}: {value}", highlight=False)


def _roll_out(console: Console, deployment: PenstockDeployment, pulse: Pulse, number: int) -> list[float]:
    time.sleep(_STEADY_S)
    begun_s = time.time()
    before = _longest_silences(pulse, begun_s - _STEADY_S + 1, begun_s)
    deployment.roll_out()
    ended_s = time.time()
    time.sleep(_STEADY_S)  # the last task has results by then
    silent = _longest_silences(pulse, begun_s, ended_s + 1)
    console.print(
        f"deploy {number}: {ended_s - begun_s:.1f} s in all; silent {', '.join(f'{it:.2f}' for it in silent)} s; "
        f"without it {max(before):.2f} s",
        highlight=False,
    )
    return silent


def _longest_silences(pulse: Pulse, begin_s: float, end_s: float) -> list[float]:
    """The longest time between two results of each partition."""
    times = [[it.at_s for it in list(of) if begin_s <= it.at_s <= end_s] for _, of in sorted(pulse.heard.items())]
    return [max((later - earlier for earlier, later in pairwise(of)), default=end_s - begin_s) for of in times]


if __name__ == "__main__":
    typer.run(main)
