"""The throughput that audits and checkpoints take from the live application: runs of the job with and without them.

    python -m benchmarks.pipeline.live_loss [--records N] [--pairs N]

Each run processes all records as fast as it can: plainly, with audits one after the other (audit point, images and
hashes of all rows, as ``penstock audit`` takes them), or with checkpoints into a folder. Spark is left out: it runs
elsewhere, or at another time, and asks the application for nothing. The loss is that of records/s, and of records per
CPU second of all processes except the broker.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from typing import Annotated

import typer
from rich.console import Console

import penstock as ps
from benchmarks.data import PARTITIONS
from benchmarks.generate import KEEP
from benchmarks.pipeline.figures import Figure, ratios
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

_KINDS = ("audit", "checkpoints")
_EVERY_S = 30
"""Seconds from the end of an audit to the next audit, and the interval of checkpoints."""
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


def one_run(made: Rig, application_id: str, kind: str) -> dict[str, float]:
    """Process all records: plainly, with audits, or with checkpoints. Returns the figures, and prints them."""
    checkpointed = {
        "state.checkpoint.uri": (made.work / f"{application_id}-checkpoints").as_uri(),
        "state.checkpoint.interval.ms": _EVERY_S * 1000,
    }
    more = checkpointed if kind == "checkpoints" else {}
    app = application(application_id, made.bootstrap_servers, made.work / application_id, more)
    with local_ray(), TreeMeter(without=is_broker) as meter:
        app.start()
        begun = begun_to_process(app)
        with Audits(app, _EVERY_S) if kind == "audit" else nullcontext() as audits:
            seconds = caught_up(app) - begun
        usage = meter.usage()
        app.close(_CLOSE_S)
    row = {
        "audits": 0 if audits is None else audits.done,
        "refused": 0 if audits is None else audits.refused,
        "seconds_on_hold": 0.0 if audits is None else round(audits.held_s, 2),
        "rows_hashed": 0 if audits is None else audits.rows,
        "manifests": len(list((made.work / f"{application_id}-checkpoints").rglob("*.json"))),
        "records_per_s": round(made.records / seconds),
        "records_per_cpu_s": round(made.records / usage.cpu_s),
        "seconds": round(seconds, 1),
    }
    print(json.dumps({"kind": kind, **row}), flush=True)
    return row


def measure(records: int, users: int, pairs: int) -> list[Figure]:
    """Run the job plainly, with audits and with checkpoints, in turn."""
    os.environ.setdefault("RAY_worker_niceness", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    rows: dict[str, list[dict[str, float]]] = {}
    with rig(page_views(records, users), Console(stderr=True)) as made:
        admin = ConfluentClients(made.bootstrap_servers, "benchmarks").admin()
        admin.create_topics([NewTopic(topic, PARTITIONS, 1, KEEP) for topic in (COUNTED, PRICED)])
        for number in range(pairs):
            for kind in ("plain", *_KINDS):
                rows.setdefault(kind, []).append(one_run(made, f"{kind}-{number}", kind))
        shape = f"{made.records:,} records, every {_EVERY_S} s"
    return [
        Figure(kind, f"{shape}: percent of {name} lost live", _lost(rows, kind, field), ".1f", at_most=3.0)
        for kind in _KINDS
        for name, field in (("records/s", "records_per_s"), ("records per CPU second", "records_per_cpu_s"))
    ]


def _lost(rows: Mapping[str, Sequence[Mapping[str, float]]], kind: str, field: str) -> tuple[float, ...]:
    plain, of_kind = ([row[field] for row in rows[it]] for it in ("plain", kind))
    return tuple(100 * (1 - ratio) for ratio in ratios(of_kind, plain))


def main(
    records: Annotated[int, typer.Option(help="Number of page views.")] = RECORDS,
    users: Annotated[int, typer.Option(help="Number of users.")] = USERS,
    pairs: Annotated[int, typer.Option(help="Number of runs of each kind.")] = 3,
) -> None:
    """Measure the losses."""
    for figure in measure(records, users, pairs):
        print(" | ".join(figure.row()))


if __name__ == "__main__":
    typer.run(main)
