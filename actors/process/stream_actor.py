"""The Ray actor of a stream loop: an async actor, and a thread in which the loop runs.

The coordinator creates it (``max_restarts=0``, one CPU) and replaces it when it is lost. Ray runs its workers at
nice 15 unless ``RAY_worker_niceness=0`` is in the environment of every node: next to a busy broker that is slow.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import ray
from ray import cloudpickle

from penstock.actors.audit_messages import AuditAnswer, AuditStep
from penstock.actors.commit_messages import CommitAnswer, CommitRequest
from penstock.actors.commits.commit_calls import CommitCalls
from penstock.actors.flame import Flame, FlameRefused
from penstock.actors.loop.garbage import GarbageMeter
from penstock.actors.loop.lease import Lease, QuestionId, lease_s
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.orders import Assign, Order, Stop
from penstock.actors.process.allocator import return_large_pieces
from penstock.actors.process.belonging import Belonging
from penstock.actors.process.flames import Flames
from penstock.actors.process.process_id import process_id
from penstock.actors.process.process_watch import LOOK_EVERY_S, ProcessWatch
from penstock.actors.process.raylet import Raylet
from penstock.actors.spec import ApplicationSpec
from penstock.actors.status import ActorEnd, ActorStatus
from penstock.actors.store_queries import StoreAnswer, StoreQuery
from penstock.common.errors import ApplicationStateError
from penstock.common.log import KEPT, identify, logger, use_format
from penstock.common.may_wait import never_wait
from penstock.kafka.clients import ConfluentClients
from penstock.tasks.measuring.operator_meter import MOST_DEEP

# The loop holds the interpreter while it works: a query waits this long until it is taken from Ray.
_SWITCH_INTERVAL_S = 0.001
_COLLECT_AFTER_OBJECTS = 50_000
_LOOK_AT_LEASE_EACH_S = 1.0
_GIVEN_TIMES = 3
"""Number of statuses that have the same line of the log: answers may be lost."""


class StreamActor:
    """One stream actor. Every method is idempotent. ``spec`` is a pickled :class:`ApplicationSpec`, ``generation`` the
    number of this version of the program."""

    def __init__(self, application_id: str, actor_id: str, spec: bytes, generation: int = 1) -> None:
        # Nothing here may fail: Ray does not retry a constructor.
        identify(application_id, actor_id)
        self._actor_id = actor_id
        self._spec = spec
        self._generation = generation
        self._loop: StreamLoop | None = None
        self._starting = asyncio.Lock()
        self._flames = Flames()
        self._watching: asyncio.Task[None] | None = None
        self._log = logger(__name__)
        self._raylet = Raylet.above_this_process()
        self._lease_s = 0.0
        self._lease = Lease(time.monotonic, self._raylet.has_ended)

    async def start(self, coordinator: Any, slot: int) -> str:
        """Connect to Kafka and be ready for tasks. The answer is the id of the actor's Ray node.
        ``coordinator`` is the handle that takes commits; ``slot``: see
        :class:`~penstock.actors.loop.stream_loop.StreamLoop`."""
        async with self._starting:
            if self._loop is None:
                self._loop = await asyncio.to_thread(self._connect, coordinator, slot, asyncio.get_running_loop())
                belonging = Belonging(self._actor_id, self._log)
                self._watching = asyncio.create_task(self._watch(coordinator, belonging))
                looking = self._loop, belonging
                threading.Thread(target=self._look_at_lease, args=looking, name="lease", daemon=True).start()
                threading.Thread(target=_run, args=(self._loop,), name="stream-loop", daemon=True).start()
        # No task should have to wait for the opening (exactly once, the transactional id; global stores).
        await asyncio.wrap_future(self._loop.take(Assign(0, {}, {})))
        self._lease.begin(self._lease_s)
        return str(ray.get_runtime_context().get_node_id())

    async def _watch(self, coordinator: Any, belonging: Belonging) -> None:
        watch = ProcessWatch("coordinator", self._log)
        while True:
            try:
                await watch.look(coordinator)
                await belonging.ask(coordinator)
            except Exception as error:  # unexpected; the next look may succeed
                self._log.error("cannot watch the coordinator", exc_info=error)
            await asyncio.sleep(LOOK_EVERY_S)

    def _look_at_lease(self, loop: StreamLoop, belonging: Belonging) -> None:
        while True:
            time.sleep(_LOOK_AT_LEASE_EACH_S)
            loop.standstill.end_if_over()
            if self._raylet.has_ended():
                belonging.leave("the raylet of its node has ended")

    def _connect(self, coordinator: Any, slot: int, events: asyncio.AbstractEventLoop) -> StreamLoop:
        spec: ApplicationSpec = cloudpickle.loads(self._spec)
        use_format(spec.config.log_format)
        self._log = logger(__name__)
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        return_large_pieces()
        sys.setrecursionlimit(sys.getrecursionlimit() + MOST_DEEP)  # for the timed edges of a measured run
        # Records make no cycles, but each has some tracked objects: without this the collector would repeatedly scan
        # all of Ray's modules.
        gc.collect()
        gc.freeze()
        gc.set_threshold(_COLLECT_AFTER_OBJECTS)

        calls, self._lease_s = self._commit_calls(coordinator), lease_s(spec.config)

        def committer(request: CommitRequest) -> Future[CommitAnswer]:
            return asyncio.run_coroutine_threadsafe(calls.commit(request), events)

        node, who = ray.get_runtime_context().get_node_id(), process_id(spec.application_id, spec.config.state_dir)
        clients, garbage = ConfluentClients.of(spec.config), GarbageMeter()
        garbage.install()
        return StreamLoop(
            spec, self._actor_id, clients, committer, node_id=node, slot=slot, process_id=who, lease=self._lease,
            garbage=garbage,
        )  # fmt: skip

    def _commit_calls(self, coordinator: Any) -> CommitCalls:
        async def call(request: CommitRequest) -> CommitAnswer | None:
            answer: CommitAnswer | None = await asyncio.wrap_future(coordinator.commit.remote(request).future())
            return answer

        return CommitCalls(self._actor_id, call, self._log)

    def _started(self) -> StreamLoop:
        if self._loop is None:
            raise ApplicationStateError(f"actor {self._actor_id} is not started")
        return self._loop

    async def tell(self, order: Order) -> bool:
        """Returns when the order is carried out: True if the last commit is in doubt. A stop raises if its commit was
        not possible."""
        if self._loop is None and isinstance(order, Stop):
            return False
        loop = self._started()
        await asyncio.wrap_future(loop.take(order))
        return loop.in_doubt

    async def heartbeat(self, question_id: QuestionId) -> None:
        """Returns at once, whatever the loop does, to show that the process lives."""
        self._lease.question_arrived(question_id)

    async def status(self, question_id: QuestionId) -> ActorStatus:
        """Returns the status of the actor."""
        self._lease.question_arrived(question_id)
        status = await asyncio.wrap_future(self._started().status())
        return replace(
            status, generation=self._generation, incarnation=self._lease.incarnation, log=KEPT.give(_GIVEN_TIMES)
        )

    async def query(self, queries: Sequence[StoreQuery]) -> list[StoreAnswer]:
        """Returns the answers, in the order of the queries."""
        return await asyncio.wrap_future(self._started().query(queries))

    async def audit(self, step: AuditStep) -> AuditAnswer:
        """Takes part in an audit point. Returns when the step is done or refused."""
        return await asyncio.wrap_future(self._started().audit(step))

    async def flame(self, seconds: float) -> Flame | FlameRefused:
        """Returns the stacks of this process, taken for at most ``LONGEST_FLAME_S``."""
        return await asyncio.to_thread(self._flames.take, seconds)

    async def wait(self) -> ActorEnd:
        """Waits until the loop has ended. Returns the reason."""
        loop = self._started()
        error = await asyncio.wrap_future(loop.finished)
        disk_of = str(ray.get_runtime_context().get_node_id()) if loop.uncaught.disk_failed else ""
        return ActorEnd(error, loop.uncaught.response, loop.in_doubt, disk_of)


def _run(loop: StreamLoop) -> None:
    never_wait()
    loop.run()
