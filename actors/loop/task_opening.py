"""Opens the tasks that an assignment adds to an actor."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from penstock.actors.calls.call_host import CallHost
from penstock.actors.checkpoints.fetching import FetchedStores
from penstock.actors.clock import Clock
from penstock.actors.commits.guarantee import Guarantee
from penstock.actors.restore.global_stores import GlobalStores
from penstock.actors.standbys.standbys import Standbys
from penstock.actors.steps import Steps, retry_while_unavailable
from penstock.actors.task_host.hosted_task import HostedTask
from penstock.actors.task_host.making import open_hosted_task, promote, renew_hosted_task
from penstock.actors.task_host.measured_runs import MeasuredRuns
from penstock.actors.task_host.positions import Start, start_positions
from penstock.actors.task_host.refused_records import RefusedRecords
from penstock.common.config import StreamsConfig
from penstock.common.errors import KafkaRefusedError
from penstock.common.ids import Sources, TaskId, TopicPartition
from penstock.common.log import logger
from penstock.common.standby_listener import SuspendReason
from penstock.kafka.contracts import Admin, RecordConsumer, Sending
from penstock.kafka.topic_lookup import CREATED_WITHIN_S
from penstock.state.write_buffer.memory_budget import MemoryBudget
from penstock.tasks.program import TaskProgram, TaskPrograms

_LOOK_UP_AGAIN_S = 0.1


class TaskOpening:
    """Makes tasks with their stores, and finds the positions at which their sources begin."""

    def __init__(
        self,
        programs: TaskPrograms,
        standbys: Standbys,
        consumer: RecordConsumer,
        admin: Admin,
        guarantee: Guarantee,
        budget: MemoryBudget,
        global_stores: GlobalStores,
        calls: CallHost,
        clock: Clock,
    ) -> None:
        self._programs = programs
        self._standbys = standbys
        self._consumer = consumer
        self._admin = admin
        self._guarantee = guarantee
        self._budget = budget
        self._globals = global_stores
        self._calls = calls
        self.refused = RefusedRecords(programs.config, clock.monotonic_s)
        self._clock = clock
        self._runs = MeasuredRuns(clock.monotonic_s, clock.thread_cpu_s)
        self._unknown_topics: set[str] = set()

    @property
    def config(self) -> StreamsConfig:
        """The configuration of the tasks."""
        return self._programs.config

    def open(
        self, sources: Sources, tasks: dict[TaskId, HostedTask], is_superseded: Callable[[], bool]
    ) -> Steps[list[HostedTask]]:
        """Opens the tasks of these ids, and adds each to ``tasks`` as soon as it is open. A task takes the stores of
        its standby here, if any. If ``is_superseded`` while another process has the stores of a task, the remaining
        tasks are not opened."""
        opened = []
        for task_id, reads in sources.items():
            program = self._programs.of(task_id.subtopology, reads)
            producer, stores = self._producer, self._globals.stores
            standby = self._standbys.detach(task_id, SuspendReason.PROMOTED)
            if standby is not None:
                hosted = promote(standby, producer, self._budget, stores, self._calls, self._runs)
            else:
                opening = partial(
                    open_hosted_task, program, task_id, producer, self._budget, reads, stores, self._calls, self._runs
                )
                found = yield from retry_while_unavailable(opening, self._clock, is_superseded)
                if found is None:
                    break
                hosted = found
            tasks[task_id] = hosted
            opened.append(hosted)
            yield 0.0
        return opened

    def renew(self, hosted: HostedTask) -> HostedTask:
        """Returns the task made again, as it was at the last commit. May be called again after an error."""
        return renew_hosted_task(hosted, self._producer, self._budget, self._globals.stores, self._calls)

    @property
    def _producer(self) -> Sending:
        return self.refused.around(self._guarantee.producer)

    def open_fetched(self, hosted: HostedTask, found: FetchedStores) -> HostedTask:
        """Returns the task made again over the stores of a checkpoint. May be called again after an error."""
        hosted.close()
        if found.folder.exists():
            hosted.directory.take_in(found.folder, found.manifest.taken_at_ms)
        program, producer = hosted.state_manager.program, self._producer
        stores = self._globals.stores
        return open_hosted_task(
            program, hosted.id, producer, self._budget, hosted.reads, stores, self._calls, self._runs
        )

    def find_starts(self, opened: Sequence[HostedTask], is_superseded: Callable[[], bool]) -> Steps[bool]:
        """Finds the positions at which their sources begin, looks up the topics of their sinks, and has their serdes
        get ready to write. The restore comes next. Returns False if ``is_superseded`` while no broker or schema
        registry answers, or no broker knows a topic any more."""
        # The producer remembers them. If the first record looked its topic up, it could not wait for a broker.
        written = {topic for hosted in opened for topic in hosted.state_manager.program.partitioned_topics}
        if not (yield from self._look_up(frozenset(written), is_superseded)):
            return False
        for program in {id(hosted.state_manager.program): hosted.state_manager.program for hosted in opened}.values():
            if (yield from retry_while_unavailable(partial(_prepared, program), self._clock, is_superseded)) is None:
                return False
        counts = yield from self._source_partitions(opened, is_superseded)
        if counts is None:
            return False
        for hosted in opened:
            hosted.meters.partitioners.begin({topic: counts.get(topic, 0) for topic in self._checked_topics(hosted)})
        resets = {tp: policy for hosted in opened for tp, policy in hosted.resets.items()}

        def finding() -> dict[TopicPartition, Start]:
            return start_positions(self._consumer, self._admin, resets, self._clock.wall_ms())

        starts = yield from retry_while_unavailable(finding, self._clock, is_superseded)
        if starts is None:
            return False
        for hosted in opened:
            hosted.begin({tp: starts[tp] for tp in hosted.sources}, self._guarantee.exactly_once)
        return True

    def report_partitioners(self, suspects: Sequence[HostedTask], is_superseded: Callable[[], bool]) -> Steps[None]:
        """Reports the findings of their partitioner checks, if the topics still have as many partitions as when the
        tasks began. Reports nothing if ``is_superseded``. Raises PartitionerMismatchError if so configured."""
        counts = yield from self._source_partitions(suspects, is_superseded)
        if counts is not None:
            for hosted in suspects:
                hosted.meters.partitioners.report(counts)

    def _source_partitions(
        self, tasks: Sequence[HostedTask], is_superseded: Callable[[], bool]
    ) -> Steps[Mapping[str, int] | None]:
        """Returns the numbers of partitions of the topics that they check, except those that Kafka does not
        describe."""
        checked = {topic for hosted in tasks for topic in self._checked_topics(hosted)}
        if not checked:
            return {}
        counts = yield from retry_while_unavailable(self._listed, self._clock, is_superseded)
        if counts is not None and (unknown := sorted(checked - counts.keys() - self._unknown_topics)):
            self._unknown_topics.update(unknown)
            logger(__name__).warning(
                "the partitioner of source topics is not checked, because Kafka does not describe them to the admin "
                "client: grant it the operation Describe on these topics",
                topics=unknown,
            )
        return counts

    def _listed(self) -> Mapping[str, int]:
        # Not with the producer: its credentials may not allow it to describe topics that it does not write.
        try:
            return self._admin.topics()
        except KafkaRefusedError:
            return {}

    def _checked_topics(self, hosted: HostedTask) -> frozenset[str]:
        """Returns the topics whose keys matter to the task, unless the program has another partitioner for them."""
        return hosted.meters.partitioners.topics - self._programs.topics_by_chosen_partitioners

    def _look_up(self, topics: frozenset[str], is_superseded: Callable[[], bool]) -> Steps[bool]:
        """Has the producer look up ``topics``, and gives the broker CREATED_WITHIN_S to create unknown ones. The first
        record for a topic that remains unknown gets the error. Returns False if ``is_superseded`` meanwhile."""
        unknown, wait_until_s = topics, math.inf
        while True:
            asking = partial(self._guarantee.producer.unknown_topics, unknown)
            found = yield from retry_while_unavailable(asking, self._clock, is_superseded)
            if found is None:
                return False
            now_s = self._clock.monotonic_s()
            unknown, wait_until_s = found, min(wait_until_s, now_s + CREATED_WITHIN_S)
            if not unknown or now_s >= wait_until_s:
                return True
            if is_superseded():
                return False
            yield _LOOK_UP_AGAIN_S


def _prepared(program: TaskProgram) -> bool:
    program.prepare_serdes()
    return True
