"""Shows the reason for which a draining application waits, and the longest time that it may take."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from penstock.common.errors import ApplicationStateError

REPORT_EACH_S = 5.0
REPEATED = "what it did since its last commit is done again at the next start"
"""The consequence of an end without a commit. The subject is the application."""
STOPPED = "has stopped; all it processed is committed"
_ACTORS = "its stream actors to commit and close their stores"


@contextmanager
def reported_while_draining(
    waiting: Callable[[], str | None], show: Callable[[str], None], within_s: float, each_s: float = REPORT_EACH_S
) -> Iterator[None]:
    """Shows every ``each_s`` seconds, until the block ends, the answer of ``waiting``, the time at which the block ends
    at the latest (``within_s`` from now), and the way to end it earlier."""
    until, ended, one_at_a_time = datetime.now() + timedelta(seconds=within_s), threading.Event(), threading.Lock()

    def repeat() -> None:
        while not ended.wait(each_s):
            line = drain_line(waiting(), until)
            with one_at_a_time:
                if not ended.is_set():
                    show(line)

    # No join: the question may take longer than the rest of the end.
    threading.Thread(target=repeat, name="drain", daemon=True).start()
    try:
        yield
    finally:
        with one_at_a_time:
            ended.set()


def not_drained(application_id: str, within_s: float, leaves: bool = False) -> ApplicationStateError:
    """Returns the error for an application that was ended after ``within_s`` without a commit. ``leaves``: it should
    also have left its group, which it then has not."""
    stays = ". It has not left its consumer group, in which it stays for consumer.session.timeout.ms (45 s by default)"
    return ApplicationStateError(
        f"application {application_id!r} did not stop within {within_s:.0f} s and was ended: {REPEATED}"
        f"{stays if leaves else ''}"
    )


def drain_line(waiting: str | None, until: datetime) -> str:
    """One line. ``waiting``: the condition that the application waits for, if it is a special one."""
    return (
        f"Draining: waiting for {_ACTORS}{f' ({waiting})' if waiting else ''}, until {until:%H:%M:%S} at the latest. "
        "Press Ctrl-C again to end it without a commit"
    )
