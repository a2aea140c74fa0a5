"""The throughput that an audit takes from the live application: runs of the job with and without one, in pairs.

    python -m benchmarks.pipeline.audit_loss [--records N] [--pairs N]

Each run processes all records as fast as it can. In every second one, audits follow each other: audit point, images and
hashes of all rows, as ``penstock audit`` takes them. Spark is left out: it runs elsewhere, or at another time, and asks
the application for nothing. The loss is that of records/s, and of records per CPU second of all processes but the
broker. Prints one JSON line for each run, and the medians of the pairs.
"""

from __future__ import annotations

import json
import os
import statistics
import threading
from contextlib import closing, nullcontext
from typing import Annotated

import typer
from rich.console import Console

import penstock as ps
from benchmarks.data import PARTITIONS
from benchmarks.generate import KEEP
from benchmarks.pipeline.history import application, begun_to_process, caught_up, is_broker, local_ray
from benchmarks.pipeline.job import COUNTED, PRICED, RECORDS, USERS, page_views
from benchmarks.pipeline.tree_meter import TreeMeter
from benchmarks.rig import Rig, rig
from penstock.cli.audit import images_of
from penstock.cluster.queries.audit_point import AuditPointError
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.pipeline.audit.plan import AuditPlan, plan_audit
from penstock.topology.physical.topic_plan import plan_topics

_CLOSE_S = 120.0
_POINT_S = 60.0


class Audits:
    """Audits of a running application, one after the other, in a thread of its own."""

    def __init__(self, app: ps.KafkaStreams, every_s: float) -> None:
        self._app = app
        self._every_s = every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.done = 0
        self.refused = 0
        self.held_s = 0.0
        self.rows = 0

    def __enter__(self) -> Audits:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        clients = ConfluentClients.of(self._app.config)
        take = images_of(self._app.application_id, _POINT_S)
        plan = _plan(self._app, clients)
        while not self._ended.wait(self._every_s):
            try:
                with closing(take(plan, clients)) as live:
                    digests = live.digests(None)
            except AuditPointError:
                self.refused += 1
                continue
            self.done += 1
            self.held_s += live.held_s
            self.rows += sum(each.rows for ranges in digests.values() for each in ranges)


def _plan(app: ps.KafkaStreams, clients: ConfluentClients) -> AuditPlan:
    existing = clients.admin().topics()
    return plan_audit(app.topology, app.config, plan_topics(app.topology, app.config, existing), existing)


def one_run(made: Rig, application_id: str, every_s: float | None) -> dict[str, float]:
    """Process all records, with an audit that begins ``every_s`` seconds after the last one, or without: None."""
    app = application(application_id, made.bootstrap_servers, made.work / application_id)
    with local_ray(), TreeMeter(without=is_broker) as meter:
        app.start()
        begun = begun_to_process(app)
        with Audits(app, every_s) if every_s is not None else nullcontext() as audits:
            seconds = caught_up(app) - begun
        usage = meter.usage()
        app.close(_CLOSE_S)
    row = {
        "audits": 0 if audits is None else audits.done,
        "refused": 0 if audits is None else audits.refused,
        "seconds_on_hold": 0.0 if audits is None else round(audits.held_s, 2),
        "rows_hashed": 0 if audits is None else audits.rows,
        "records_per_s": round(made.records / seconds),
        "records_per_cpu_s": round(made.records / usage.cpu_s),
        "seconds": round(seconds, 1),
    }
    print(json.dumps(row), flush=True)
    return row


def main(
    records: Annotated[int, typer.Option(help="Number of page views.")] = RECORDS,
    users: Annotated[int, typer.Option(help="Number of users.")] = USERS,
    pairs: Annotated[int, typer.Option(help="Number of pairs of runs.")] = 3,
    every_s: Annotated[float, typer.Option(help="Seconds from one audit to the next.")] = 60.0,
) -> None:
    """Measure the loss."""
    os.environ.setdefault("RAY_worker_niceness", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    kept: dict[str, list[float]] = {"records_per_s": [], "records_per_cpu_s": []}
    with rig(page_views(records, users), Console(stderr=True)) as made:
        admin = ConfluentClients(made.bootstrap_servers, "benchmarks").admin()
        admin.create_topics([NewTopic(topic, PARTITIONS, 1, KEEP) for topic in (COUNTED, PRICED)])
        for number in range(pairs):
            without = one_run(made, f"without-{number}", None)
            audited = one_run(made, f"audited-{number}", every_s)
            for name, ratios in kept.items():
                ratios.append(audited[name] / without[name])
    for name, ratios in kept.items():
        print(f"{name}: {100 * (1 - statistics.median(ratios)):.1f} % lost (median of {pairs} pairs)")


if __name__ == "__main__":
    typer.run(main)
