"""``penstock run MODULE:APP`` and ``penstock.run(app)``: an application from start to end, in the foreground."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from penstock.cli import output
from penstock.cli.draining import REPEATED, STOPPED, not_drained, reported_while_draining
from penstock.cli.live_view import LiveView
from penstock.cli.loading import load_application
from penstock.cli.screen import log_file, terminal
from penstock.cli.status_lines import StatusLines
from penstock.cluster.client.server_settings import ServerSettings
from penstock.cluster.read_side import ApplicationState, ApplicationStatus
from penstock.common.errors import ApplicationStateError, StreamsError
from penstock.common.log import logger, use_format

if TYPE_CHECKING:
    from penstock.cluster.client.close_options import CloseOptions
    from penstock.cluster.client.kafka_streams import KafkaStreams

_FRAME_S = 0.5
_DRAIN_S = 120.0
_INTERRUPTED = 130


def register(app: typer.Typer) -> None:
    """Mount ``run`` on the root."""
    app.command("run")(_run)


def _run(
    target: Annotated[str, typer.Argument(metavar="MODULE:APP", help="Such as examples.word_count:app")],
    take_over: Annotated[
        bool,
        typer.Option(help="End the application first if it runs in another Ray cluster here, or with this state.dir"),
    ] = False,
    leave_group: Annotated[
        bool, typer.Option("--leave-group", help="Leave the consumer group at the end, as for a Kafka Streams in Java")
    ] = False,
) -> None:
    """Run an application until Ctrl-C, SIGTERM or `penstock stop`; each drains and commits.

    The HTTP API listens at `application.server` of the program's configuration: 127.0.0.1:8080 by default, port 0 takes
    any free port, an empty value starts no server.
    """
    with _awaiting(output.console()) as awaits:
        awaits(f"Loading {target}, and Ray with it")
        app = load_application(target)
    run_application(app, take_over, leave_group)


def run_application(app: KafkaStreams, take_over: bool = False, leave_group: bool = False) -> None:
    """Run ``app`` in the foreground until a signal or `penstock stop` ends it; then drain, commit and return.

    Connects to Ray as ``KafkaStreams.start`` does, and serves the HTTP API at ``application.server``. A terminal shows
    a live table, and the log lines of Ray and penstock go to a file below ``state.dir``. Other outputs get a line every
    few seconds, among the log lines. When the application cannot start or ends in ERROR, prints the reason and exits
    with 1; with 130 when Ctrl-C comes before it has started, or again while it drains. ``take_over``: see
    ``KafkaStreams.start``; ``leave_group``: leave the consumer group at the end, see ``CloseOptions``. For the main
    thread. Raises TypeError for an object that is no application.
    """
    _check_kind(app)
    try:
        _run_to_the_end(app, take_over, _close_options(leave_group))
    except StreamsError as error:
        output.console(stderr=True).print(Text(str(error), style="red"), soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:
        output.console(stderr=True).print(
            f"Application {app.application_id} was interrupted: {REPEATED}",
            soft_wrap=True,
            markup=False,
        )
        sys.exit(_INTERRUPTED)


def _check_kind(app: object) -> None:
    from penstock.cluster.client.kafka_streams import KafkaStreams

    if not isinstance(app, KafkaStreams):
        raise TypeError(f"run needs a KafkaStreams, not a {type(app).__name__}: make KafkaStreams(topology, config)")


def _close_options(leave_group: bool) -> CloseOptions:
    from penstock.cluster.client.close_options import CloseOptions

    kind = CloseOptions.GroupMembershipOperation
    return CloseOptions(_DRAIN_S, kind.LEAVE_GROUP if leave_group else kind.REMAIN_IN_GROUP)


def _run_to_the_end(app: KafkaStreams, take_over: bool, end: CloseOptions) -> None:
    use_format(app.config.log_format)
    if not sys.stdout.isatty():
        _run_and_drain(app, output.console(), take_over, end)
        return
    log = log_file(app.config.state_dir, app.application_id)
    with terminal(log) as screen:
        screen.print(f"Log: {log}", soft_wrap=True, markup=False, highlight=False, style="dim")
        _run_and_drain(app, screen, take_over, end)


def _run_and_drain(app: KafkaStreams, console: Console, take_over: bool, end: CloseOptions) -> None:
    with ExitStack() as connected:
        # Signals only after the connection: ray.init() installs a handler of its own, which ends the interpreter
        # without a commit.
        with _awaiting(console) as awaits:
            _check(app, awaits)
            _connect(app, take_over, connected, awaits)
            stop = connected.enter_context(_signals())
            awaits(f"Starting application {app.application_id}: its coordinator and HTTP server")
            app.start(take_over=take_over)
        try:
            last = _watch(app, stop, console)
        finally:
            with reported_while_draining(
                lambda: _waiting(app), partial(console.print, soft_wrap=True, markup=False), _DRAIN_S
            ):
                drained = app.close(end)
        if last.state is not ApplicationState.NOT_RUNNING:
            last = app.status()
    if last.state is ApplicationState.ERROR or last.error:
        raise ApplicationStateError(f"application {app.application_id!r} ended in ERROR: {last.error}")
    if not drained:
        raise not_drained(app.application_id, _DRAIN_S)
    console.print(f"Application {app.application_id} {STOPPED}.", soft_wrap=True)


def _waiting(app: KafkaStreams) -> str | None:
    try:
        return app.status().waiting
    except ApplicationStateError as error:
        return str(error)


def _check(app: KafkaStreams, awaits: Callable[[str], None]) -> None:
    awaits(f"Asking the broker at {app.config.bootstrap_servers} about the topics")
    app.check()
    if app.config.application_server:
        ServerSettings.of(app.config)  # errors in it are reported before Ray is started


def _connect(app: KafkaStreams, take_over: bool, connected: ExitStack, awaits: Callable[[str], None]) -> None:
    from penstock.cluster.client import starting
    from penstock.cluster.ray_cluster.rays_lines import plain_rays_lines

    if take_over:
        awaits(
            f"Stopping application {app.application_id} in other Ray clusters of this machine, then connecting to Ray"
        )
    else:
        awaits("Connecting to Ray, or starting it on this machine")
    plain_rays_lines()
    connected.enter_context(starting.connection(app.application_id, take_over))


@contextmanager
def _awaiting(console: Console) -> Iterator[Callable[[str], None]]:
    """Shows what the command waits for until the block ends: in one line with a spinner on a terminal, else line by
    line."""
    if not console.is_terminal:
        yield lambda what: print(f"{what} …", flush=True)
        return
    with console.status("") as spinner:
        yield lambda what: spinner.update(Text(f"{what} …"))


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """Yields an event that the first SIGINT or SIGTERM sets; for a second one the earlier handlers are called."""
    stop = threading.Event()
    former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in former.items():
            signal.signal(number, handler)

    def handle(_: int, __: FrameType | None) -> None:
        stop.set()
        # Ray's own SIGTERM handler must not come back before the drain is over.
        signal.signal(signal.SIGINT, signal.default_int_handler)

    for number in former:
        signal.signal(number, handle)
    try:
        yield stop
    finally:
        restore()


def _watch(app: KafkaStreams, stop: threading.Event, console: Console) -> ApplicationStatus:
    """Show the application until it ends or ``stop`` is set; its last status."""
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
            view = LiveView()
            for status in _statuses(app, stop, _FRAME_S):
                live.update(view.render(_without_cause(status), time.monotonic()), refresh=True)
    else:
        lines = StatusLines()
        for status in _statuses(app, stop, _FRAME_S):
            line = lines.line(status, time.monotonic())
            if line is not None:
                print(line, flush=True)
    if stop.is_set():
        console.print(f"Stopping {app.application_id}: draining and committing …", soft_wrap=True)
    return status


def _without_cause(status: ApplicationStatus) -> ApplicationStatus:
    """Returns the status without its error: a table higher than the window is cut, so the cause is printed in full
    below it."""
    if status.state is not ApplicationState.ERROR:
        return status
    return replace(status, error=None, actors=tuple(replace(actor, error=None) for actor in status.actors))


def _statuses(app: KafkaStreams, stop: threading.Event, interval_s: float) -> Iterator[ApplicationStatus]:
    status = app.status()
    yield status
    while not status.state.has_ended and not stop.wait(interval_s):
        try:
            status = app.status()
        except ApplicationStateError as error:
            # Its coordinator is being restarted; the application itself continues.
            logger(__name__).warning("application state unavailable", application=app.application_id, error=str(error))
            continue
        yield status
