"""Opens, follows and closes the standbys of an actor, and hands them out to be promoted."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from penstock.actors.checkpoints.fetching import CheckpointFetching
from penstock.actors.clock import Clock
from penstock.actors.commits.guarantee import Guarantee
from penstock.actors.spec import ApplicationSpec
from penstock.actors.standbys.following import Following
from penstock.actors.standbys.standby_retries import StandbyRetries
from penstock.actors.status import StandbyStatus
from penstock.actors.task_host.standby_task import Asked, StandbyTask, open_standby_task
from penstock.common.errors import BrokerUnreachableError, StateStoreLockedError
from penstock.common.ids import CommittedOffset, Sources, TaskId, TopicPartition
from penstock.common.log import logger
from penstock.common.standby_listener import SuspendReason
from penstock.kafka.contracts import Admin, RecordConsumer
from penstock.state.write_buffer.memory_budget import MemoryBudget
from penstock.tasks.program import TaskPrograms

_ASK_COMMITTED_EVERY_S = 1.0


class Standbys:
    """One per actor. ``by_id``: all open standbys, for queries that accept a stale answer."""

    def __init__(
        self,
        spec: ApplicationSpec,
        programs: TaskPrograms,
        make_consumer: Callable[[], RecordConsumer],
        admin: Admin,
        guarantee: Guarantee,
        budget: MemoryBudget,
        clock: Clock,
        fetching: CheckpointFetching,
    ) -> None:
        self.by_id: dict[TaskId, StandbyTask] = {}
        self._programs = programs
        self._application_id = spec.application_id
        self._admin = admin
        self._guarantee = guarantee
        self._budget = budget
        self._clock = clock
        self._log = logger(__name__)
        self._fetching = fetching
        self._following = Following(
            make_consumer, admin, clock, guarantee.exactly_once, fetching, spec.standby_listener
        )
        self._to_open: dict[TaskId, frozenset[TopicPartition]] = {}
        self._begun: set[TaskId] = set()
        self._retries = StandbyRetries(clock)
        self._asking: Future[dict[TopicPartition, CommittedOffset]] | None = None
        self._asked = self._now()
        self._ask_at_s = 0.0
        self._asked_for: list[StandbyTask] = []
        self._unanswered_s: float | None = None  # time of the first request since the last answer
        self._asker: ThreadPoolExecutor | None = None

    def open(self, sources: Sources) -> None:
        """Have standbys opened that are not open yet, and follow their changelogs: one after the other, between
        records. The first attempt asks the brokers in the loop, so active tasks wait for it (up to 10 s if no broker
        answers). After a failure another thread asks first:
        :class:`~penstock.actors.standbys.standby_retries.StandbyRetries`."""
        self._to_open = {task_id: reads for task_id, reads in sources.items() if task_id not in self._begun}
        self._retries.keep_only(self._to_open.keys() | self._begun)

    def _open_next(self) -> bool:
        # An actor that was refused has no producer until its next assignment, if any.
        if not self._to_open or not hasattr(self._guarantee, "producer"):
            return False
        task_id = next(filter(self._retries.may_try, self._to_open), None)
        if task_id is None:
            return False
        reads = self._to_open.pop(task_id)
        try:
            standby = self.by_id.get(task_id) or self._open(task_id, reads)
            if self._retries.probe_first(task_id, self._probe_of(standby)):
                self._to_open[task_id] = reads
                return False
            if standby.held:
                # Without the committed offsets it would seem to lack nothing, and the task would move to it.
                asked = self._now()
                standby.take_committed(self._admin.committed(self._application_id, standby.sources), asked)
            if not self._following.begin(standby):
                self._retries.done(task_id)
                return False  # :meth:`_take_committed` queues it again when more is known
        except (BrokerUnreachableError, StateStoreLockedError) as error:
            opened = self.by_id.get(task_id)
            if self._retries.later(task_id, self._probe_of(opened) if opened else None):
                self._log.warning("standby not opened yet, retrying", task=str(task_id), error=str(error))
            self._to_open[task_id] = reads  # after the others, which may not fail
            return False
        self._retries.done(task_id)
        self._begun.add(task_id)
        return True

    def _probe_of(self, standby: StandbyTask) -> Callable[[], None]:
        """Returns a function that asks the brokers on which the opening of ``standby`` depends; for another thread."""
        changelogs, sources = frozenset(standby.changelogs.values()), standby.sources if standby.held else None

        def probe() -> None:
            self._admin.end_offsets(changelogs)
            self._admin.delete_retention_ms({tp.topic for tp in changelogs})
            if sources is not None:
                self._admin.committed(self._application_id, sources)

        return probe

    def _open(self, task_id: TaskId, reads: frozenset[TopicPartition]) -> StandbyTask:
        program = self._programs.of(task_id.subtopology, reads)
        standby = open_standby_task(program, task_id, self._guarantee.producer, self._budget, reads)
        self.by_id[task_id] = standby
        self._log.info("standby opened", task=str(task_id), directory=str(standby.directory.path))
        return standby

    def close_others(self, sources: Sources, promoted: Sources) -> None:
        """Close standbys that are neither in ``sources`` nor to be ``promoted``, or that must read other partitions."""
        self._to_open = {}
        for standby in list(self.by_id.values()):
            if standby.reads not in (sources.get(standby.id), promoted.get(standby.id)):
                self.detach(standby.id, SuspendReason.MIGRATED)
                standby.close()

    def detach(self, task_id: TaskId, reason: SuspendReason) -> StandbyTask | None:
        """Stop following the standby of the task. Returns the standby, still open; None if there is none."""
        standby = self.by_id.pop(task_id, None)
        self._begun.discard(task_id)
        self._retries.done(task_id)
        if standby is not None:
            self._fetching.forget(task_id)
            self._following.forget(standby, reason)
        return standby

    def step(self) -> bool:
        """Follow for about 2 ms. Returns True if there were records."""
        if self._open_next() or self._take_fetched():
            return True
        self._find_committed()
        if not self._following.active:
            return False
        return self._begin_again() or self._following.step()

    def _take_fetched(self) -> bool:
        """Have a standby opened again that need not wait for a checkpoint any longer: with the stores of one, if there
        is any."""
        task_id = next((each for each in self._fetching.ended() if each in self.by_id), None)
        if task_id is None:
            return False
        found, reads = self._fetching.take(task_id), self.by_id[task_id].reads
        if found is not None:
            standby = self.detach(task_id, SuspendReason.MIGRATED)
            assert standby is not None
            standby.close()
            try:
                standby.directory.take_in(found.folder, found.manifest.taken_at_ms)
            except StateStoreLockedError as error:
                # Another actor of the node has just opened the directory, and removes the folder.
                self._log.warning("checkpoint not used", task=str(task_id), error=str(error))
        self._fetching.looked(task_id, found)
        self._to_open[task_id] = reads
        return True

    def _begin_again(self) -> bool:
        """Have a standby begin again whose changelogs have deleted records before they were read here. The others are
        followed meanwhile, so a changelog without a leader delays only its own standby."""
        overtaken = self._following.overtaken
        standby = next((it for it in overtaken if self._retries.may_try(it.id)), None)
        if standby is None:
            return False
        probe = partial(self._admin.end_offsets, overtaken[standby])
        if self._retries.probe_first(standby.id, probe):
            return False
        try:
            self._following.begin_again(overtaken[standby])
        except BrokerUnreachableError as error:
            if self._retries.later(standby.id, probe):
                self._log.warning("standby not begun again yet, retrying", task=str(standby.id), error=str(error))
            return False
        self._retries.done(standby.id)
        return True

    def _find_committed(self) -> None:
        """Ask, in another thread, what the active tasks have committed, for the standbys that must not pass that."""
        if self._asking is not None and self._asking.done():
            answer, self._asking = self._asking, None
            self._take_committed(answer)
        if self._asking is None and self._clock.monotonic_s() >= self._ask_at_s:
            held = [standby for standby in self.by_id.values() if standby.held]
            if held:
                self._asked, self._asked_for = self._now(), held
                self._ask_at_s = self._asked.monotonic_s + _ASK_COMMITTED_EVERY_S
                sources = {tp for standby in held for tp in standby.sources}
                self._asker = self._asker or ThreadPoolExecutor(1, "penstock-standbys")
                self._asking = self._asker.submit(self._admin.committed, self._application_id, sources)

    def _now(self) -> Asked:
        return Asked(self._clock.wall_ms(), self._clock.monotonic_s())

    def _take_committed(self, answer: Future[dict[TopicPartition, CommittedOffset]]) -> None:
        try:
            committed = answer.result()
        except BrokerUnreachableError as error:
            if self._unanswered_s is None:
                self._unanswered_s = self._asked.monotonic_s
                self._log.warning("committed offsets unknown, standbys wait", error=str(error))
            return
        if self._unanswered_s is not None:
            away_s = round(self._clock.monotonic_s() - self._unanswered_s, 1)
            self._log.info("committed offsets known again, standbys follow", away_s=away_s)
            self._unanswered_s = None
        for standby in self._asked_for:
            # A standby opened meanwhile would take it that nothing of its task is committed. One that has left is
            # closed.
            if self.by_id.get(standby.id) is not standby or not standby.take_committed(committed, self._asked):
                continue
            if standby.id in self._begun:
                self._following.committed(standby)
            else:
                self._to_open[standby.id] = standby.reads

    def status(self) -> tuple[StandbyStatus, ...]:
        """Returns the lags of the standbys that are followed, except of those whose lag is unknown."""
        return tuple(map(self._following.status, filter(self._following.knows, self.by_id.values())))

    def close(self) -> None:
        """Close all standbys; the restored rows are on disk."""
        if self._asker is not None:
            self._asker.shutdown(wait=False, cancel_futures=True)
        self._retries.close()
        try:
            self._following.close()
        finally:
            for standby in self.by_id.values():
                standby.close()
            self.by_id.clear()
