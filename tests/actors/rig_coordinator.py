"""The coordinator of a rig: the production code that judges commits, over what the rig assigns."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from penstock.actors.commit_messages import CommitAnswer, CommitRequest
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.cluster.actor_record import ActorRecord, Phase
from penstock.cluster.coordinator.commit_requests import CommitRequests
from penstock.cluster.events import (
    AcceptCommit,
    CommitOffsets,
    CommitRequested,
    CommitSucceeded,
    Instruction,
    RefuseCommit,
)
from penstock.cluster.placement.owned_tasks import OwnedTasks
from penstock.common.ids import CommittedOffset, Sources
from penstock.testing.fake_broker import FakeBroker
from penstock.topology.physical.task_plan import TaskPlan

GROUP, MEMBER = "app", "member"
Answer = Future[CommitAnswer]


class FakeCoordinator:
    """Takes commits for the group: at once, or when the test calls for it, or not at all.

    It knows the assignments of the loops that it watches. Like the real one it refuses a commit under a stale epoch,
    and exactly once leaves a request without an answer until its epoch is that of the actor's last assignment.
    """

    def __init__(self, broker: FakeBroker, exactly_once: bool = False) -> None:
        self.broker, self.exactly_once = broker, exactly_once
        self.incarnation = 0
        self.requests: list[CommitRequest] = []
        self.refusal = ""
        self.held: list[tuple[CommitRequest, Answer]] | None = None
        self._actors: dict[str, ActorRecord] = {}
        self._owned = OwnedTasks(TaskPlan(()))
        self._messages: list[Instruction] = []
        self._commits = CommitRequests(self._actors, self._owned, exactly_once, self._messages.append)
        self._waiting: dict[tuple[str, int], list[Answer]] = {}

    def watch(self, loop: StreamLoop, actor_id: str) -> None:
        """A new actor of that name: note what it is assigned from here on, and when it has confirmed it."""
        self._actors[actor_id] = ActorRecord(Phase.UP)
        assign = loop.assign

        def noting(epoch: int, sources: Sources, standbys: Sources | None = None) -> Future[None]:
            self._issued(actor_id, epoch, sources)
            done = assign(epoch, sources, standbys)
            done.add_done_callback(lambda it: self._confirmed(actor_id, epoch) if it.exception() is None else None)
            return done

        loop.assign = noting  # type: ignore[method-assign]  # as the coordinator does, which sends the order

    def _issued(self, actor_id: str, epoch: int, sources: Sources) -> None:
        actor = self._actors[actor_id]
        if epoch < actor.epoch:
            return  # an order that comes too late
        actor.first_epoch = actor.first_epoch or epoch
        actor.epoch, actor.issued = epoch, dict(sources)
        actor.held |= sources.keys()
        self._owned.plan.partitions.update(sources)
        self._owned.tasks |= sources.keys()
        self._look_again()

    def _confirmed(self, actor_id: str, epoch: int) -> None:
        actor = self._actors[actor_id]
        if epoch == actor.epoch:
            actor.confirmed, actor.held = epoch, frozenset(actor.issued)
            self._look_again()

    def commit(self, request: CommitRequest) -> Answer:
        """The answer to an actor that wants to commit."""
        self.requests.append(request)
        answer: Answer = Future()
        if self.held is not None:
            self.held.append((request, answer))
        else:
            self._settle(request, answer)
        return answer

    def join(self) -> None:
        """Become the static member, once more: the broker refuses actors that show an earlier incarnation."""
        self.incarnation = self.broker.join(GROUP, MEMBER, ["in"])

    def hold(self) -> None:
        """Leave requests unanswered until :meth:`release`."""
        self.held = []

    def release(self) -> None:
        """Answer what was held."""
        held, self.held = self.held or [], None
        for request, answer in held:
            self._settle(request, answer)

    def _settle(self, request: CommitRequest, answer: Answer) -> None:
        if self.refusal:
            answer.set_result(CommitAnswer(False, self.refusal))
            return
        if self.exactly_once:
            self._owned.group_metadata = self.broker.metadata(GROUP, MEMBER, self.incarnation)
        self._waiting.setdefault((request.actor_id, request.number), []).append(answer)
        self._then(lambda: self._commits.requested(CommitRequested(request)))

    def _look_again(self) -> None:
        self._then(self._commits.look_again)

    def _then(self, step: Callable[[], None]) -> None:
        step()
        while self._messages:
            match self._messages.pop(0):
                case CommitOffsets(request):
                    with self.broker.changed:
                        self.broker.group(GROUP).offsets.update(
                            {tp: CommittedOffset(*position) for tp, position in request.offsets.items()}
                        )
                    self._commits.succeeded(CommitSucceeded(request))
                case AcceptCommit(request, metadata):
                    self._answer(request, CommitAnswer(True, group_metadata=metadata))
                case RefuseCommit(request, reason):
                    self._answer(request, CommitAnswer(False, reason))

    def _answer(self, request: CommitRequest, answer: CommitAnswer) -> None:
        for waiting in self._waiting.pop((request.actor_id, request.number), []):
            waiting.set_result(answer)
