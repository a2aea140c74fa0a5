"""One run from its seed: feed, strike, come to rest, check."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from penstock.cluster.read_side import ApplicationStatus
from penstock.common.errors import ConfigError
from penstock.tasks.program import TaskPrograms
from penstock.testing.chaos import checks
from penstock.testing.chaos.disks import stores_are_their_changelogs
from penstock.testing.chaos.feeder import feed, write
from penstock.testing.chaos.prober import Prober
from penstock.testing.chaos.program import Guarantee, Program
from penstock.testing.chaos.rest import come_to_rest
from penstock.testing.chaos.rig import APPLICATION, Rig, Role, rig
from penstock.testing.chaos.schedule import OF_NETWORK, OUTAGES, Kind, draw, possible
from penstock.testing.chaos.strike import Striker

REST_S = 180.0
_PROCESSES_END_S = 120.0
_LOOK_EACH_S = 0.2
_OF_EACH_STORE = 2
"""On disk: that of the active task, and a standby's."""
_ATTEMPTS = 3


@dataclass
class Report:
    """A run and its outcome. ``violations`` is empty when all that was promised held."""

    seed: int
    seconds: float
    kinds: Collection[Kind]
    guarantee: Guarantee
    nodes: int
    folder: Path
    """Holds the broker's files, the state and the logs; it stays if something is violated, or the run raises."""
    faults: int = 0
    rest_s: float = 0.0
    """Time after the last fault until the application had nothing left to do; 0 if it never came there."""
    poisoned: int = 0
    """Records that cannot be decoded."""
    look_ups: Mapping[str, int] = field(default_factory=dict)
    """Number of answers of the HTTP server, by their kind."""
    violations: list[str] = field(default_factory=list)


def run(
    program: Program,
    seed: int,
    seconds: float = 60.0,
    guarantee: Guarantee = Guarantee.EXACTLY,
    nodes: int = 1,
    kinds: Collection[Kind] | None = None,
    show: Callable[[str], None] = print,
) -> Report:
    """Run ``program`` on a Kafka and a Ray of its own with ``nodes`` nodes, strike it for ``seconds`` with faults that
    ``seed`` decides, and check what its ``guarantee`` promises. Such a run takes a minute more than ``seconds``.

    ``kinds``: of faults; by default all that :func:`~penstock.testing.chaos.schedule.possible` gives. ``show`` gets a
    line about each step. In the main thread of a process that uses no Ray otherwise.
    """
    if lacking := [name for name in ("topics", "rounds") if not hasattr(program, name)]:
        raise ConfigError(f"{type(program).__name__} has no {' and no '.join(lacking)}: docs/CHAOS.md has an example")
    chosen = possible(nodes, guarantee, bool(program.poison())) if kinds is None else kinds
    report = Report(seed, seconds, chosen, guarantee, nodes, Path(tempfile.mkdtemp(prefix="penstock-chaos-")))
    try:
        _play(program, report, show)
    except KeyboardInterrupt:
        shutil.rmtree(report.folder)  # a user who interrupts the run does not want its files
        raise
    except Exception:
        show(f"not played to its end; logs and data: {report.folder}")
        raise
    if not report.violations:
        shutil.rmtree(report.folder)
    return report


def _play(program: Program, report: Report, show: Callable[[str], None]) -> None:
    # Transactions that end while a partition has no leader, Kafka ends without informing the partition
    # (docs/RELIABILITY.md): what is to be exact wants replicas.
    moves_leaders = OUTAGES | {Kind.ELECT_LEADERS}
    replicas = 3 if report.guarantee is Guarantee.EXACTLY and not moves_leaders.isdisjoint(report.kinds) else 1
    proxied = None if OF_NETWORK.isdisjoint(report.kinds) else report.seed
    with rig(report.folder, program, report.guarantee, replicas, report.nodes, proxied) as it:
        began = time.monotonic()

        def stamped(what: str) -> None:
            show(f"{time.monotonic() - began:7.1f} s  {what}")

        try:
            _run(it, program, report, stamped)
        except Exception:
            _keep_logs(it)
            raise
        if report.violations:
            _keep_logs(it)


def _keep_logs(it: Rig) -> None:
    shutil.copytree(it.ray_logs, it.folder / "ray-logs", ignore_dangling_symlinks=True)


def _run(it: Rig, program: Program, report: Report, show: Callable[[str], None]) -> None:
    stopped = threading.Event()
    prober = Prober(it.http_port, APPLICATION, program.counting_up)
    with ThreadPoolExecutor(2, "chaos") as threads:
        try:
            fed = threads.submit(feed, it.clients, program, report.seconds, stopped)
            it.start()
            plan = it.plan  # asked for while a broker answers
            probed = threads.submit(prober.ask_until, stopped, report.seed)
            show(f"the application runs, with {len(plan.partitions)} tasks; faults begin")
            striker = Striker(it, program, show)
            faults = draw(report.seed, report.seconds, report.kinds)
            striker.strike(faults, lambda: prober.ended is not None or _failed(fed))
            report.faults, report.poisoned = striker.struck, striker.poisoned
            show("faults are over")
            report.violations += _settled(it, report, fed, prober)
        finally:
            stopped.set()
        probed.result()
    report.look_ups = prober.answers
    report.violations += prober.violations
    if report.rest_s:
        show(f"at rest after {report.rest_s:.1f} s; checking")
        if Kind.POISON in report.kinds:
            report.violations += _counts_poison(it, program, report)
        report.violations += program.check(it)
        if report.guarantee is Guarantee.EXACTLY:
            report.violations += checks.no_transaction_is_open(*it.ends())
    report.violations += _closed(it)
    if report.rest_s:
        show("ended; comparing the stores on disk with their changelogs")
        programs, damaged = TaskPrograms(it.app.topology, it.app.config), Kind.DAMAGE_STORES in report.kinds
        report.violations += stores_are_their_changelogs(
            it.state_dir, programs, it.plan, it.clients, _OF_EACH_STORE, damaged
        )


def _failed(fed: Future[None]) -> bool:
    return fed.done() and fed.exception() is not None


def _settled(it: Rig, report: Report, fed: Future[None], prober: Prober) -> list[str]:
    """Wait for rest, unless the application has ended. Returns the reasons why it is not at rest."""
    if prober.ended is not None:
        return [f"the application ended in state {prober.ended}"]
    began = time.monotonic()
    fed.result()
    unrest = come_to_rest(it, REST_S)
    if unrest is not None:
        return [unrest]
    report.rest_s = time.monotonic() - began
    return []


def _counts_poison(it: Rig, program: Program, report: Report) -> list[str]:
    """Records that cannot be decoded are dropped and counted. At rest: the count of an actor that is lost is lost."""
    for _ in range(_ATTEMPTS):
        before = it.app.status()
        records = list(program.poison())
        write(it.clients, records)
        report.poisoned += len(records)
        unrest = come_to_rest(it, REST_S)
        if unrest is not None:
            return [unrest]
        after = it.app.status()
        if _homes(before) == _homes(after):
            return checks.poison_counted(_dropped(after) - _dropped(before), len(records))
    # A task that moves for balance begins to count again; but at rest that comes to an end.
    return [
        f"whether records that cannot be decoded are counted is not known: tasks moved in each of {_ATTEMPTS} attempts"
    ]


def _homes(status: ApplicationStatus) -> dict[str, int]:
    return {str(task.task_id): actor.pid for actor in status.actors for task in actor.tasks}


def _dropped(status: ApplicationStatus) -> int:
    return sum(task.dropped_records for task in status.tasks)


def _closed(it: Rig) -> list[str]:
    """Close the application, which must end cleanly and leave no process."""
    wrong = [] if it.close() else ["the application did not end cleanly"]
    deadline = time.monotonic() + _PROCESSES_END_S
    while left := [process for role in Role for process in it.processes(role)]:
        if time.monotonic() > deadline:
            return [*wrong, f"processes left over: {', '.join(str(process.pid) for process in left)}"]
        time.sleep(_LOOK_EACH_S)
    return wrong
