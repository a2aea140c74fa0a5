"""The results of a program without faults: one stream loop, bunch after bunch, on a broker of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from penstock.actors.commit_messages import CommitAnswer, CommitRequest
from penstock.actors.loop.lease import Lease
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.spec import ApplicationSpec
from penstock.actors.task_host import task_directory
from penstock.common.ids import CommittedOffset, TaskId
from penstock.common.topics import NewTopic
from penstock.kafka.internal_topics.creation import ensure_topics
from penstock.state.builders import AnyStoreBuilder
from penstock.state.contracts import TaskStores
from penstock.state.disk.task_stores import open_task_stores
from penstock.testing.fake_broker import FakeBroker, FakeRecord
from penstock.testing.fake_clients import FakeClients
from penstock.topology.physical.topic_plan import plan_topics
from tests.actors.rig import ManualClock
from tests.simulation.programs import Row
from tests.simulation.simulated_calls import CallsWithoutTime

_MOST_STEPS = 5000
_ALONE = {"processing_guarantee": "at_least_once", "state_checkpoint_uri": None}
Rows = dict[tuple[str, TaskId], dict[str, str]]
"""For each store of each task, the rows that a processor sees in it."""


def write(broker: FakeBroker, rows: Iterable[Row]) -> None:
    """Writes ``rows`` as a producer with the default partitioner does."""
    for row in rows:
        value = None if row.value is None else row.value.encode()
        broker.append(row.topic, FakeRecord(row.key.encode(), value, row.timestamp, None))


def _in_memory(_: Path, builders: Iterable[AnyStoreBuilder], unlock: Callable[[], object] = lambda: None) -> TaskStores:
    """Opens without a disk: in less time, and by other code than that of the cluster."""
    unlock()
    return open_task_stores(None, builders)


class OneHost:
    """All tasks of ``spec`` in one loop, on ``broker`` and an empty disk."""

    def __init__(self, spec: ApplicationSpec, broker: FakeBroker, clock: ManualClock, state_dir: Path) -> None:
        config = spec.config.model_copy(update={"state_dir": state_dir, **_ALONE})
        here = ApplicationSpec(spec.topology, config)
        clients = FakeClients(spec.application_id, broker, read_committed=True)
        planned = partial(plan_topics, here.topology, config)
        self.plan = ensure_topics(clients.admin(), planned).tasks
        self.broker, self.clock = broker, clock
        self._group = spec.application_id
        self.loop = StreamLoop(
            here, "stream/1", clients, self._commit, clock, "node", 1, lease=Lease.unlimited(clock.monotonic_s),
            calls=CallsWithoutTime,
        )  # fmt: skip
        with patch.object(task_directory, "open_task_stores", _in_memory):
            self.loop.assign(1, self.plan.partitions)
            self.settle()

    def _commit(self, request: CommitRequest) -> Future[CommitAnswer]:
        answer: Future[CommitAnswer] = Future()
        offsets = {tp: CommittedOffset(*position) for tp, position in request.offsets.items()}
        self.broker.group(self._group).offsets.update(offsets)
        answer.set_result(CommitAnswer(True))
        return answer

    def settle(self) -> None:
        """Steps the loop until there is nothing more to do."""
        for _ in range(_MOST_STEPS):
            if self.loop.step() > 0 and self.loop.step() > 0:
                return
            assert not self.loop.finished.done(), self.loop.finished.result()
        raise AssertionError("one task host without faults does not come to rest")

    def pass_time(self, ms: int) -> None:
        self.clock.now_ms += ms
        self.settle()

    def close(self) -> None:
        """Ends the loop without a commit."""
        self.loop._finish("closed")


def expected(
    spec: ApplicationSpec, topics: dict[str, int], bunches: list[list[Row]], begin_ms: int, state_dir: Path
) -> FakeBroker:
    """Returns a broker with the results."""
    broker = FakeBroker()
    for topic, partitions in topics.items():
        broker.create_topic(NewTopic(topic, partitions))
    write(broker, bunches[0])
    host = OneHost(spec, broker, ManualClock(begin_ms), state_dir)
    for bunch in bunches[1:]:
        write(broker, bunch)
        host.pass_time(500)
    for _ in range(5):  # what is written by one commit may wait for the next
        host.pass_time(1500 + spec.config.commit_interval_ms)
    host.close()
    return broker


def rows_of(tasks: Iterable[Any]) -> Iterator[tuple[tuple[str, TaskId], dict[str, str]]]:
    """Yields the rows that a processor sees in each store of tasks, or of standbys, that can be listed. A row that
    has expired may still be on one disk and not on another."""
    for task in tasks:
        manager = task.state_manager
        for name in manager.store_names:
            view = manager.store(name).view()
            if hasattr(view, "all") and "shared-join" not in name:  # whose keys are not those of the program
                yield (name, task.id), {str(key): str(value) for key, value in view.all()}


def restored(spec: ApplicationSpec, broker: FakeBroker, clock: ManualClock, state_dir: Path) -> Rows:
    """Returns the rows of the stores when they are restored from their changelogs alone."""
    host = OneHost(spec, broker, clock, state_dir)
    host.settle()
    rows = dict(rows_of(host.loop._tasks.values()))
    host.close()
    return rows
