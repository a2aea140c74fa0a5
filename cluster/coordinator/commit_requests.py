"""Answers actors that want to commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from penstock.actors.commit_messages import CommitRequest
from penstock.cluster.actor_record import ActorRecord, Phase
from penstock.cluster.events import (
    AcceptCommit,
    CommitFailed,
    CommitOffsets,
    CommitRequested,
    CommitSucceeded,
    Instruction,
    RefuseCommit,
)
from penstock.cluster.placement.owned_tasks import OwnedTasks

_SUPERSEDED = "superseded by a later commit of the same actor"  # nothing waits for this answer: the actor has continued


class CommitRequests:
    """The part of the coordinator's state machine that judges commits, by what it knows of actors and group.

    At least once, Kafka has the offsets before the actor hears that they are accepted. Exactly once, the actor hears as
    which member of the group it may commit, but not when that has passed: once the group has another
    generation, Kafka refuses what it commits.
    """

    def __init__(
        self,
        actors: Mapping[str, ActorRecord],
        owned: OwnedTasks,
        exactly_once: bool,
        instruct: Callable[[Instruction], None],
    ) -> None:
        self._actors = actors
        self._owned = owned
        self._exactly_once = exactly_once
        self._instruct = instruct
        self._waiting: list[CommitRequest] = []
        self._with_kafka: set[tuple[str, int]] = set()

    def under_way(self, actor_id: str) -> bool:
        """True if Kafka may still take offsets that were committed for this actor."""
        return any(name == actor_id for name, _ in self._with_kafka)

    def requested(self, event: CommitRequested) -> None:
        """Take the request of an actor, which may be one that it repeats."""
        request = event.request
        actor = self._actors.get(request.actor_id)
        if actor is not None and request.epoch < actor.first_epoch:
            # Its numbers are not this actor's. If it is this one all the same, it gets back what it drops now.
            actor.outdated = True
            earlier = (
                f"epoch {request.epoch} is stale: it was that of an earlier actor by the name of {request.actor_id}"
            )
            self._instruct(RefuseCommit(request, earlier))
        elif actor is None or request.number > actor.last_commit:
            self._supersede(request)
            if actor is not None:
                actor.last_commit, actor.answer = request.number, None
            self._judge(request)
        elif request.number < actor.last_commit:
            self._refuse(request, _SUPERSEDED)
        elif actor.answer is not None:
            self._instruct(actor.answer)
        # Else it waits, here or for Kafka, and its answer answers this call too.

    def _supersede(self, request: CommitRequest) -> None:
        for waiting in [it for it in self._waiting if it.actor_id == request.actor_id]:
            self._waiting.remove(waiting)
            self._refuse(waiting, _SUPERSEDED)

    def succeeded(self, event: CommitSucceeded) -> None:
        """Kafka has the offsets."""
        self._with_kafka.discard((event.request.actor_id, event.request.number))
        self._accept(AcceptCommit(event.request))

    def failed(self, event: CommitFailed) -> None:
        """Kafka did not take them: judge again, unless it never will."""
        self._with_kafka.discard((event.request.actor_id, event.request.number))
        actor = self._actors.get(event.request.actor_id)
        if event.final:
            self._refuse(event.request, event.error)
        elif actor is not None and actor.last_commit > event.request.number:
            self._refuse(event.request, _SUPERSEDED)
        else:
            self._judge(event.request)

    def look_again(self) -> None:
        """Something has changed: those that wait may be answered now."""
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            self._judge(request)

    def refuse_waiting(self, reason: str) -> None:
        """Nothing will change any more."""
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            self._refuse(request, reason)

    def _judge(self, request: CommitRequest) -> None:
        """Let Kafka have it if the actor may commit it now; without what is of topics that are gone."""
        if gone := {tp for tp in request.offsets if tp.topic in self._owned.deleted_topics}:
            request = replace(request, offsets={tp: at for tp, at in request.offsets.items() if tp not in gone})
        reason = self._refusal_reason(request)
        if reason is not None:
            self._refuse(request, reason)
        elif request.presence:
            self._accept(AcceptCommit(request))
        elif not self._exactly_once:
            self._with_kafka.add((request.actor_id, request.number))
            self._instruct(CommitOffsets(request))
        elif self._may_be_member(request):
            self._accept(AcceptCommit(request, self._owned.group_metadata))
        else:
            self._waiting.append(request)

    def _may_be_member(self, request: CommitRequest) -> bool:
        """True if all that the actor works on, and all that it was sent, is what the group gives to this member now:
        the answer holds for that, and for what it is sent later. Otherwise it waits, for its next assignment at
        most."""
        actor = self._actors[request.actor_id]
        current = request.epoch == actor.epoch and not actor.unsure
        return current and bool(self._owned.group_metadata) and actor.issued.keys() <= self._owned.tasks

    def _accept(self, accepted: AcceptCommit) -> None:
        actor = self._actors.get(accepted.request.actor_id)
        if actor is not None and actor.last_commit == accepted.request.number:
            actor.answer = accepted
        self._instruct(accepted)

    def _refuse(self, request: CommitRequest, reason: str) -> None:
        refused = RefuseCommit(request, reason)
        actor = self._actors.get(request.actor_id)
        if actor is not None and actor.last_commit == request.number:
            actor.answer, actor.outdated = refused, True
        self._instruct(refused)

    def _refusal_reason(self, request: CommitRequest) -> str | None:
        actor = self._actors.get(request.actor_id)
        if actor is None or actor.phase is Phase.FENCING:
            return f"actor {request.actor_id} is no longer part of the application"
        if self._exactly_once:
            return None
        if not actor.confirmed <= request.epoch <= actor.epoch:
            return f"epoch {request.epoch} is stale; the current epoch is {actor.epoch}"
        partitions = self._owned.plan.partitions
        held = {partition for task in actor.held for partition in partitions.get(task, ())}
        if foreign := sorted(set(request.offsets) - held):
            return f"partition {foreign[0]} is not read by a task of actor {request.actor_id}"
        return self._owned.refusal_reason(request.epoch, request.offsets)
