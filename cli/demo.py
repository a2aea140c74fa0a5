"""``make demo``: the word count over Python's own sources, live, on a real Kafka and a Ray of its own; then its check.

Everything is in a new directory, so nothing that an earlier run has left is counted; at the end it is deleted. ``make
demo-backfill`` is the same with ``--backfill``: half of the lines are history, which Spark counts first.
"""

from __future__ import annotations

import logging
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import ray
from rich.console import Console
from rich.live import Live
from rich.text import Text

from penstock.api.kafka_streams import KafkaStreams
from penstock.cli import output
from penstock.cli.backfill import summary
from penstock.cli.demo_check import StoreReader, verify
from penstock.cli.demo_corpus import direct_counts, load, sources
from penstock.cli.demo_program import identifiers, topology
from penstock.cli.live_view import LiveView
from penstock.cluster.ray_cluster.connections import start_cluster
from penstock.cluster.read_side import ApplicationState, ApplicationStatus
from penstock.common.errors import StreamsError
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.local_broker.broker import LocalBroker

Files = Sequence[tuple[str, str]]
"""Paths with their text."""

PARTITIONS = 4
_FRAME_S = 0.5
# Lag is what the last fetch saw. Records on their way through the repartition topic show up well within this time.
_QUIET_S = 2.0
_STOP_S = 60.0


def main(arguments: Sequence[str] = ()) -> int:
    """Run the demo; returns the exit code. 0: every count is right; 1: some are not, or it failed; 130: interrupted."""
    console = output.console()
    catch_signals()
    try:
        with ExitStack() as stack:
            return 0 if _demo(console, stack, by_spark="--backfill" in arguments) else 1
    except KeyboardInterrupt:
        console.print("\ninterrupted: everything that was started has ended")
        return 130
    except StreamsError as error:
        console.print(Text(str(error), style="red"), soft_wrap=True)
        return 1


def _demo(console: Console, stack: ExitStack, by_spark: bool) -> bool:
    began = time.monotonic()
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-demo-")))
    broker = stack.enter_context(LocalBroker(folder / "kafka", port=0))
    console.print(f"Kafka answers at {broker.bootstrap_servers} after {time.monotonic() - began:.0f} s")
    clients = ConfluentClients(broker.bootstrap_servers, "penstock-demo")
    clients.admin().create_topics([NewTopic("lines", PARTITIONS), NewTopic("word-counts", PARTITIONS)])

    files = list(sources())
    if by_spark:
        history, files = files[::2], files[1::2]
        _count_history(console, clients, _application(broker.bootstrap_servers, folder / "state"), history)
    app = _start(stack, broker.bootstrap_servers, folder / "state")
    address = app.status().http_address
    assert address is not None
    console.print(f"The word count runs on Ray and answers at {address}/docs after {time.monotonic() - began:.0f} s")

    loading = stack.enter_context(_Loading(clients, files))
    _watch(console, app, loading)
    console.print("\nComparing every count with a direct one...")
    reader = StoreReader.of(address, app.application_id, "counts")
    equal = verify(reader, direct_counts(identifiers), console)
    console.print(f"{loading.lines:,} lines, {time.monotonic() - began:.0f} s in all", style="dim")
    return equal


def _application(bootstrap_servers: str, state_dir: Path) -> KafkaStreams:
    """The word count, with settings that collide with nothing else on this machine."""
    return KafkaStreams(
        topology(),
        {
            "application.id": "word-count",
            "bootstrap.servers": bootstrap_servers,
            "state.dir": state_dir,
            "application.server": "127.0.0.1:0",
        },
    )


def _count_history(console: Console, clients: ConfluentClients, app: KafkaStreams, files: Files) -> None:
    """Write ``files`` and let Spark count them, as ``penstock backfill`` does."""
    from penstock.pipeline.backfill.backfill import backfill

    with closing(clients.producer()) as producer, console.status("") as shown:
        sent = load(producer, "lines", lambda lines: shown.update(f"{lines:,} lines written"), lambda: False, files)
        console.print(f"{sent:,} lines are history; Spark counts them")
        report = backfill(app.topology, app.config, progress=lambda now: shown.update(now.step))
    console.print(summary(report))


def _start(stack: ExitStack, bootstrap_servers: str, state_dir: Path) -> KafkaStreams:
    """Start the application on a Ray of its own."""
    start_ray(stack)
    app = _application(bootstrap_servers, state_dir)
    stack.callback(app.close, _STOP_S)
    app.start()
    return app


def start_ray(stack: ExitStack) -> str:
    """Start a Ray of the demo's own, which ends with ``stack``, never one that runs already; returns its address."""
    stack.callback(ray.shutdown)
    start_cluster(log_to_driver=False, logging_level=logging.ERROR)
    catch_signals()  # again: Ray has put its own handler in the place of ours
    return str(ray.get_runtime_context().gcs_address)


class _Loading:
    """Writes the lines in a thread, so that the view shows records while they come."""

    def __init__(self, clients: ConfluentClients, files: Files) -> None:
        self._clients = clients
        self._files = files
        self._stopped = threading.Event()
        self._pool = ThreadPoolExecutor(1, "demo-loading")
        self._done: Future[int]
        self.lines = 0

    def __enter__(self) -> _Loading:
        self._done = self._pool.submit(self._load)
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopped.set()
        self._pool.shutdown()

    @property
    def done(self) -> bool:
        """True if the broker has every line. Raises the error that prevented it."""
        return self._done.done() and self._done.result() == self.lines

    def _load(self) -> int:
        producer = self._clients.producer()
        try:
            return load(producer, "lines", self._sent, self._stopped.is_set, self._files)
        finally:
            producer.close()

    def _sent(self, lines: int) -> None:
        self.lines = lines


def _watch(console: Console, app: KafkaStreams, loading: _Loading) -> None:
    """Show the application until it has processed all records."""
    view = LiveView()
    quiet_since: float | None = None
    before = -1
    with Live(console=console, auto_refresh=False, transient=False) as live:
        while True:
            status, now = app.status(), time.monotonic()
            complete = loading.done
            live.update(view.render(status, now, _note(loading.lines, complete)), refresh=True)
            if status.state.has_ended:
                raise StreamsError(f"the application ended: {status.error or status.state.value}")
            processed = sum(task.records_processed for task in status.tasks)
            if not (complete and processed == before and _caught_up(status)):
                quiet_since = None
            elif quiet_since is None:
                quiet_since = now
            elif now - quiet_since >= _QUIET_S:
                return
            before = processed
            time.sleep(_FRAME_S)


def _note(lines: int, complete: bool) -> str:
    return f"{lines:,} lines in, {'all there are' if complete else 'loading'}"


def _caught_up(status: ApplicationStatus) -> bool:
    everywhere = len(status.tasks) == status.task_count > 0 and status.state is ApplicationState.RUNNING
    return everywhere and all(task.lags and task.lag == 0 for task in status.tasks)


def catch_signals() -> None:
    """SIGTERM ends the demo like Ctrl-C, and a second Ctrl-C does not interrupt the clean-up."""

    def interrupt(number: int, frame: object) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, interrupt)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
