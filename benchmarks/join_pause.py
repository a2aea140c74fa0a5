"""Measures how long each task of a running application makes no progress when a stream actor joins:
``python -m benchmarks.join_pause``.

A count by key over 16 partitions, fed steadily. Each result says when its record was processed; the pause of a task is
the longest time between two of them around the join, less the longest that there was before. All actors are on this
machine, so a task that moves finds its store there, and restores the tail of its changelog alone.
"""

from __future__ import annotations

import logging
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated

import ray
import typer
from rich.console import Console
from rich.table import Table

import penstock as ps
from benchmarks.rig import broker
from penstock.cluster.names import NAMESPACE
from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.testing.whole_topics import whole

TASKS = 16
_KEYS = 1000
_EACH_S = 0.01
_STEADY_S = 8.0
"""Seconds before the join, and after it."""


def topology() -> ps.Topology:
    """Returns the count; its results are the moments at which they were made."""
    builder = ps.StreamsBuilder()
    string = ps.Serdes.string()
    (
        builder.stream("in", ps.Consumed.with_(string, string))
        .group_by_key(ps.Grouped.with_(string, string))
        .count(ps.Materialized.as_("counts").with_caching_disabled())
        .to_stream()
        .map_values(lambda _: repr(time.time()))
        .to("out", ps.Produced.with_(string, string))
    )
    return builder.build()


class _Feeder(threading.Thread):
    """Writes a record to every partition each 10 ms, from the start on."""

    def __init__(self, clients: ConfluentClients, state: int) -> None:
        super().__init__(daemon=True)
        self._producer = clients.producer()
        self._end = threading.Event()
        for number in range(state):
            self._send(number, 50 * number)
        assert self._producer.flush(60)

    def _send(self, partition: int, key: int) -> None:
        at = partition % TASKS
        self._producer.send("in", f"{at}-{key}".encode(), b"", 1000, partition=at)

    def run(self) -> None:
        """Write until it is closed."""
        number, due_s = 0, time.monotonic()
        while not self._end.is_set():
            for partition in range(TASKS):
                self._send(partition, number % _KEYS)
            self._producer.poll()
            number += 1
            due_s += _EACH_S
            time.sleep(max(0.0, due_s - time.monotonic()))
        assert self._producer.flush(60)
        self._producer.close()

    def close(self) -> None:
        """End; all is written then."""
        self._end.set()
        self.join()


def moments(clients: ConfluentClients) -> dict[int, list[float]]:
    """Returns the times at which the records of each partition were processed, in order."""
    found: dict[int, list[float]] = defaultdict(list)
    for batch in whole(clients, [TopicPartition("out", number) for number in range(TASKS)]):
        for key, value in zip(batch.keys, batch.values, strict=True):
            assert key is not None
            assert value is not None
            found[int(key.split(b"-")[0])].append(float(value))
    return {task: sorted(times) for task, times in found.items()}


def longest(times: Sequence[float], since: float, until: float) -> float:
    """Returns the longest time between two of them."""
    within = [at for at in times if since <= at <= until]
    return max(after - before for before, after in pairwise(within))


def measured(address: str, state: str, guarantee: str, actors: int, records: int) -> tuple[dict[int, float], set[int]]:
    """Returns the pause of each task in ms, and the tasks that moved."""
    clients = ConfluentClients(address, "join-pause", {"isolation.level": "read_committed"})
    clients.admin().create_topics([NewTopic("in", TASKS), NewTopic("out", TASKS)])
    config = {
        "application.id": "join-pause", "bootstrap.servers": address, "state.dir": state, "application.server": "",
        "processing.guarantee": guarantee, "commit.interval.ms": 100 if guarantee == "exactly_once_v2" else 1000,
    }  # fmt: skip
    feeder = _Feeder(clients, records)
    with ps.KafkaStreams(topology(), config) as app:
        app.wait_until_running()
        while len(app.status().actors) > actors:
            app.remove_stream_actor()
        feeder.start()
        time.sleep(4)
        while sum(task.lag for task in app.status().tasks) > TASKS / _EACH_S:
            time.sleep(0.1)  # what was there before is worked off
        time.sleep(_STEADY_S)
        before, joined_s = app.status().placement, time.time()
        assert app.add_stream_actor() is not None
        while len(set(app.status().placement.values())) != actors + 1:
            time.sleep(0.1)
        time.sleep(_STEADY_S)
        after = app.status().placement
        feeder.close()
    moved = {task.partition for task in after if after[task] != before[task]}
    pauses = {}
    for task, times in moments(clients).items():
        usual = longest(times, joined_s - _STEADY_S, joined_s)
        pauses[task] = max(0.0, longest(times, joined_s, joined_s + _STEADY_S) - usual) * 1000
    return pauses, moved


def _row(table: Table, name: str, pauses: Mapping[int, float], tasks: set[int]) -> None:
    values = sorted(pauses[task] for task in tasks)
    if values:
        figures = (statistics.median(values), values[-1])
        table.add_row(name, str(len(values)), *(f"{value:.0f}" for value in figures))


def main(
    actors: Annotated[int, typer.Option(min=1, help="Stream actors before the join.")] = 3,
    guarantee: Annotated[str, typer.Option(help="processing.guarantee")] = "at_least_once",
    records: Annotated[int, typer.Option(min=0, help="Records that are counted before, each of a key of its own.")] = 0,
) -> None:
    """Measure once, and print a table."""
    console = Console()
    with broker(console) as (work, address):
        ray.init(
            "local", num_cpus=actors + 1, namespace=NAMESPACE, include_dashboard=False, log_to_driver=False,
            logging_level=logging.ERROR,
        )  # fmt: skip
        try:
            pauses, moved = measured(address, str(work / "state"), guarantee, actors, records)
        finally:
            ray.shutdown()
    table = Table("tasks", "number", "median, ms", "longest, ms", title=f"{actors} + 1 actors, {guarantee}")
    _row(table, "that moved", pauses, moved)
    _row(table, "that stayed", pauses, set(pauses) - moved)
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
