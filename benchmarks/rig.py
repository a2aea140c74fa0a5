"""The common part of all runs of one benchmark: the broker in a temporary directory, its records, single runs on it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from benchmarks.compare import Output, differences, read_output, wait_for_output
from benchmarks.data import PARTITIONS, Dataset
from benchmarks.expected import expected_output
from benchmarks.generate import KEEP, generate
from benchmarks.measure import Hook, Run, Side, run_side
from benchmarks.workloads import WORKLOADS
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import Admin
from penstock.kafka.local_broker.broker import LocalBroker


@dataclass
class Rig:
    """A broker with the input on it. ``run`` may be called any number of times, one after the other."""

    work: Path
    bootstrap_servers: str
    dataset: Dataset
    console: Console
    _clients: ConfluentClients = field(init=False)
    _admin: Admin = field(init=False)
    _expected: dict[str, Output] = field(default_factory=dict, init=False)
    _runs: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._clients = ConfluentClients(self.bootstrap_servers, "benchmarks")
        self._admin = self._clients.admin()

    @property
    def records(self) -> int:
        """Number of records that are counted."""
        return self.dataset.records

    @property
    def keys(self) -> int:
        """Number of keys that the records have."""
        return self.dataset.keys

    def fill(self) -> None:
        """Write the input."""
        producer = self._clients.producer()
        with self.console.status("Writing the records") as status:

            def report(done: int) -> None:
                status.update(f"Writing the records: {done:,} of {self.records:,}")

            generate(self._admin, producer, self.dataset, report)
        producer.close()

    def run(self, side: Side, workload: str, hook: Hook | None = None) -> tuple[Run, list[str]]:
        """Run once in topics of its own, which are deleted afterwards. Returns the run and the faults of its output."""
        self._runs += 1
        application_id = f"bench-{workload}-{self._runs}"
        output = f"{application_id}-output"
        self._admin.create_topics([NewTopic(output, PARTITIONS, 1, KEEP)])
        with self.console.status(f"{side.name}: {workload}"):
            settled = self._settled(workload, output)
            run = run_side(
                side, workload, self.dataset, application_id, output, self._admin, hook=hook, settled=settled
            )
            consumer = self._clients.consumer()
            try:
                found = differences(workload, self.expected(workload), read_output(output, self._admin, consumer))
            finally:
                consumer.close()
        self._admin.delete_topics([name for name in self._admin.topics() if name.startswith(application_id)])
        return run, [f"{side.name}: {difference}" for difference in found]

    def expected(self, workload: str) -> Output:
        """Returns the output that ``workload`` must write for the input; computed once."""
        if workload not in self._expected:
            topics = {**self.dataset.streams, **self.dataset.tables}
            self._expected[workload] = expected_output(workload, {topic: rows() for topic, rows in topics.items()})
        return self._expected[workload]

    def _settled(self, workload: str, output: str) -> Callable[[], bool] | None:
        """Returns a function that waits for the expected output of a workload that settles, and returns False if that
        takes too long; None for a workload that does not settle."""
        if not WORKLOADS[workload].settles:
            return None
        expected = self.expected(workload).final
        return lambda: wait_for_output(output, expected, self._clients.consumer())


@contextmanager
def rig(dataset: Dataset, console: Console) -> Iterator[Rig]:
    """Yields a rig with its input; when the block ends, the broker is stopped and every file removed."""
    with broker(console) as (work, bootstrap_servers):
        made = Rig(work, bootstrap_servers, dataset, console)
        made.fill()
        yield made


@contextmanager
def broker(console: Console) -> Iterator[tuple[Path, str]]:
    """Yields a temporary directory, and the address of an empty broker in it; both are gone when the block ends."""
    work = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        with console.status("Starting the broker"):
            local = LocalBroker(work / "broker", port=0)
            status = local.start()
        try:
            yield work, status.bootstrap_servers
        finally:
            local.stop()
    finally:
        shutil.rmtree(work, ignore_errors=True)
