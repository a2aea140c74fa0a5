"""Measures how long an application is silent when its busiest process is killed: ``python -m benchmarks.failover``.

Two processes or more that host tasks (penstock: actors on a Ray of as many nodes), with a store of a given size.
Before, between and after the kills, records are sent at an even pace; how late each result comes is its latency.
"""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.baseline import NAME as JAVA
from benchmarks.baseline import find_jdk
from benchmarks.deployed import clients_of, create_topics, deployed
from benchmarks.deployment import PATIENCE_S, Deployment, Setting, source_of
from benchmarks.java_deployment import session_config
from benchmarks.measure import BenchmarkError
from benchmarks.pulse import Pulse, quantile
from benchmarks.report import surroundings
from benchmarks.rig import broker
from penstock.kafka.clients import ConfluentClients

STEADY_S = 5.0
VALUE_BYTES = 500


@dataclass(frozen=True)
class Failover:
    """The outcome of one kill. ``silent_s``: until the first new result of each partition that the process had.
    ``strip_ms``: median and longest latency of the records of each second around it."""

    silent_s: dict[int, float]
    at_rest_s: float
    before_ms: list[float]
    strip_ms: list[tuple[float, float]]


def fill(clients: ConfluentClients, topic: str, records: int) -> None:
    """Write the records that the state is made of."""
    producer, value = clients.producer(), os.urandom(VALUE_BYTES)
    for number in range(records):
        producer.send(topic, b"key-%d" % number, b"%d " % number + value, 1)
        if not number % 1000:
            producer.poll()
    producer.flush(600)
    producer.close()


def kill(deployment: Deployment, pulse: Pulse, again: bool) -> Failover:
    """Kill the process with most tasks by SIGKILL, while records come. ``again``: another kill follows."""
    time.sleep(STEADY_S)
    victim = deployment.busiest()
    killed_s = time.time()
    deployment.kill(victim)
    silent: dict[int, float] = {}
    while len(silent) < len(victim.partitions) and time.time() < killed_s + PATIENCE_S:
        for partition in victim.partitions:
            if partition not in silent and (found := pulse.silence_s(partition, killed_s)) is not None:
                silent[partition] = found
        time.sleep(0.005)
    if again:
        deployment.recover()
    if again or deployment.recovers_itself:
        deployment.until_at_rest(but=victim.name)
    rest_s = time.time() - killed_s
    time.sleep(1.0)
    strip = [pulse.latencies_ms(killed_s + second, killed_s + second + 1) for second in range(-2, 8)]
    shown = [(statistics.median(it), it[-1]) if it else (0.0, 0.0) for it in strip]
    return Failover(silent, rest_s, pulse.latencies_ms(killed_s - STEADY_S + 1, killed_s - 1), shown)


def main(
    megabytes: Annotated[int, typer.Option(min=1, help="Size of the store.")] = 1000,
    tasks: Annotated[int, typer.Option(min=1, help="Partitions of the input.")] = 4,
    nodes: Annotated[int, typer.Option(min=1, help="Processes with tasks; of penstock, each on a node of Ray.")] = 2,
    standbys: Annotated[int, typer.Option(min=0, help="num.standby.replicas, fewer than nodes.")] = 1,
    guarantee: Annotated[str, typer.Option(help="processing.guarantee")] = "at_least_once",
    per_second: Annotated[int, typer.Option(min=10, help="Records that are sent to all partitions.")] = 1000,
    kills: Annotated[int, typer.Option(min=1, help="Number of times that the busiest process is killed.")] = 5,
    lose_disk: Annotated[bool, typer.Option("--lose-disk", help="Also remove the files of the killed actor.")] = False,
    java: Annotated[bool, typer.Option("--java", help="Kafka Streams instead of penstock.")] = False,
    session_ms: Annotated[int, typer.Option(help="Kafka Streams' session.timeout.ms")] = 45_000,
) -> None:
    """Measure how long no results come after kill -9 of the busiest process."""
    console = Console()
    session = session_config(session_ms)
    try:
        setting = Setting(tasks, nodes, standbys, guarantee)
        jdk = find_jdk() if java else None
        with broker(console) as (work, address):
            clients = clients_of(address, guarantee)
            output = "failover"
            source = source_of(output)
            create_topics(clients, output, tasks)
            with console.status(f"Filling the store: {megabytes} MB"):
                fill(clients, source, megabytes * 1_000_000 // VALUE_BYTES)
            with deployed(work, address, setting, output, jdk, session, lose_disk) as deployment:
                deployment.until_at_rest()
                pulse = Pulse(clients, source, output, tasks, per_second)
                try:
                    found = []
                    for number in range(1, kills + 1):
                        found.append(kill(deployment, pulse, again=number < kills))
                        longest_s = max(found[-1].silent_s.values())
                        console.print(f"kill {number}: silent {longest_s:.2f} s", highlight=False)
                finally:
                    pulse.close()
    except BenchmarkError as error:
        console.print(str(error), style="red", markup=False, highlight=False)
        raise typer.Exit(1) from None
    side = f"{JAVA}, session.timeout.ms {session_ms}" if java else "penstock"
    disk = ", disk lost" if lose_disk else ""
    size = f"{megabytes} MB{disk}, {tasks} tasks, {nodes} nodes, {standbys} standbys"
    _show(console, found, f"{side}: {size}, {guarantee}, {per_second}/s", jdk.version if jdk else None)


def _show(console: Console, found: list[Failover], title: str, java: str | None) -> None:
    table = Table("kill", "silent, s", "at rest, s", "p50 ms", "p99 ms", "p99.9 ms", title=title)
    for number, each in enumerate(found, 1):
        silent = ", ".join(f"{seconds:.2f}" for seconds in each.silent_s.values())
        quantiles = [quantile(each.before_ms, at) for at in (0.5, 0.99, 0.999)]
        table.add_row(str(number), silent, f"{each.at_rest_s:.1f}", *(f"{it:.1f}" for it in quantiles))
    console.print(table)
    silences = sorted(seconds for each in found for seconds in each.silent_s.values())
    console.print(f"silent: median {statistics.median(silences):.2f} s, longest {silences[-1]:.2f} s", highlight=False)
    for number, each in enumerate(found, 1):
        strip = "  ".join(
            f"{second:+d} s: {p50:.0f}/{most:.0f}" for second, (p50, most) in enumerate(each.strip_ms, -2)
        )
        console.print(f"kill {number}, median/longest latency in ms: {strip}", highlight=False, soft_wrap=True)
    for name, value in surroundings(java).items():
        console.print(f"{name}: {value}", highlight=False)


if __name__ == "__main__":
    typer.run(main)
