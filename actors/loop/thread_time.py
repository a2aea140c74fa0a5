"""The seconds that the thread of a stream loop spends on what is not work on records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from penstock.actors.loop.answers import QueryExecutor
from penstock.actors.loop.garbage import GarbageMeter
from penstock.actors.loop.hosted_tasks import HostedTasks
from penstock.actors.loop.mailbox import Mailbox
from penstock.actors.loop.source_reader import SourceReader
from penstock.actors.steps import Steps
from penstock.common.measures import Window
from penstock.common.metric_names import THREAD, Measured


class ThreadTime:
    """``garbage``: measures the garbage collector; None if nothing does."""

    def __init__(self, clock_s: Callable[[], float], mailbox: Mailbox, garbage: GarbageMeter | None) -> None:
        self._clock_s = clock_s
        self._mailbox = mailbox
        self.garbage = garbage
        self._windows: defaultdict[str, Window] = defaultdict(Window)
        self.answering_s = 0.0
        """Seconds for queries and other requests, such as for a status."""
        self.restoring_s = 0.0
        """Seconds for restores, standbys and global stores, while there were records for them."""
        self.fetch_wait_s = 0.0
        """Seconds without anything to do while a broker had records that were not here yet."""
        self.broker_wait_s = 0.0
        """Seconds of waiting for a broker, or the coordinator, in a commit or a change of tasks."""

    @property
    def idle_s(self) -> float:
        """Seconds without anything to do, and without records at the brokers."""
        return self._mailbox.idle_s - self.fetch_wait_s

    def answer(
        self, queries: QueryExecutor, wait_s: float, idle: bool, hosted: HostedTasks, reader: SourceReader
    ) -> None:
        """Wait at most ``wait_s`` for a request, then answer what waits. ``idle``: nothing else is under way."""
        mailbox, begun_s = self._mailbox, self._clock_s()
        before_s = mailbox.waited_s
        mailbox.serve(0.0 if queries.busy else wait_s, idle)
        queries.step()
        waited_s = mailbox.waited_s - before_s
        self.answering_s += max(0.0, self._clock_s() - begun_s - waited_s)
        if waited_s and not idle:
            self.broker_wait_s += waited_s
        elif waited_s and hosted.may_process and reader.is_behind:
            self.fetch_wait_s += waited_s

    def restore(self, hosted: HostedTasks) -> tuple[bool, list[Steps[None]]]:
        """Like :meth:`HostedTasks.restore`."""
        begun_s = self._clock_s()
        busy, jobs = hosted.restore()
        if busy:
            self.restoring_s += self._clock_s() - begun_s
        return busy, jobs

    def measured(self, now_s: float) -> Measured:
        """Returns the shares of the last half minute, and the figures of the collector if it is measured."""
        seconds = {
            "idle": self.idle_s,
            "fetch-wait": self.fetch_wait_s,
            "broker-wait": self.broker_wait_s,
            "restore": self.restoring_s,
            "query": self.answering_s,
        }
        measured: Measured = {
            (THREAD, f"{name}-ratio"): self._windows[name].look(now_s, 0, spent_s).per_second
            for name, spent_s in seconds.items()
        }
        if self.garbage is None:
            return measured
        collecting = self._windows["gc"].look_at(self.garbage.collections, now_s)
        return measured | {
            (THREAD, "gc-ratio"): collecting.per_second,
            (THREAD, "gc-total"): self.garbage.collections.count,
            (THREAD, "gc-full-total"): self.garbage.full,
            (THREAD, "gc-latency-max"): 1000 * collecting.highest,
        }
