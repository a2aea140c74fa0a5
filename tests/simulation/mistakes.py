"""Known mistakes, planted again: the simulation must find each of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from penstock.actors.commit_messages import CommitRequest
from penstock.actors.commits.exactly_once import ExactlyOnce
from penstock.actors.commits.guarantee import ANSWER_SLICE_S, AtLeastOnce, RefusedError, answer_to
from penstock.actors.loop.hosted_tasks import HostedTasks
from penstock.actors.loop.standstill import Standstill
from penstock.actors.restore.replays import Replays
from penstock.actors.steps import Steps
from penstock.actors.task_host.standby_task import StandbyTask
from penstock.actors.task_host.task_directory import TaskDirectory
from penstock.cluster.coordinator.commit_requests import CommitRequests
from penstock.cluster.coordinator.coordinator import Coordinator
from penstock.cluster.coordinator_shell.dispatch import Dispatcher
from penstock.cluster.events import ActorFenced
from penstock.cluster.watchers.leases import Leases
from penstock.cluster.watchers.overdue import OverdueOrders
from penstock.common.errors import BrokerUnreachableError
from penstock.kafka.contracts import TransactionAbortedError, UndeliveredError
from penstock.state.disk.bulk_load import remove_tables
from tests.simulation.checkpoint_mistakes import BESIDE_DELETIONS, delete_files_of_uploads_under_way
from tests.simulation.setting import ALL_FROM_THE_SEED, Choice, Setting

Plant = Callable[[Any, str, Any], None]
"""Sets an attribute for as long as the mistake is planted, as ``pytest.MonkeyPatch.setattr`` does."""


def forget_without_a_fence(plant: Plant) -> None:
    """The coordinator takes an actor that is lost for dead."""
    gone = Coordinator._gone
    plant(Coordinator, "_gone", lambda self, name, in_doubt, *args, **kwargs: gone(self, name, False, *args, **kwargs))


def call_it_fenced_when_no_broker_answers(plant: Plant) -> None:
    """The dispatcher takes an error for an answer."""

    async def fence(self: Any, name: str, slot: int) -> None:
        with contextlib.suppress(BrokerUnreachableError):
            await self._environment.fence(slot)
        self.feed(ActorFenced(name))

    plant(Dispatcher, "_fence", fence)


def accept_partitions_of_other_members(plant: Plant) -> None:
    """The coordinator does not check if the group has given an actor's partitions to another member."""
    plant(CommitRequests, "_may_be_member", lambda self, _: bool(self._owned.group_metadata))


def accept_an_old_assignment(plant: Plant) -> None:
    """A task on its way to the actor may be another member's by now."""

    def may_be_member(self: Any, request: CommitRequest) -> bool:
        sources = self._owned.plan.partitions
        held = {task for task in self._actors[request.actor_id].held if task in sources}
        return bool(self._owned.group_metadata) and held <= self._owned.tasks

    plant(CommitRequests, "_may_be_member", may_be_member)


def go_on_after_an_abort(plant: Plant) -> None:
    """The actor does not read again the records behind the last commit."""

    def renew(self: Any) -> Steps[None]:
        yield from self._find_group_metadata()

    plant(HostedTasks, "_renew", renew)


def take_the_id_after_finding_the_group(plant: Plant) -> None:
    """The coordinator may have fenced the actor since it has answered."""

    def go_back(self: Any, error: UndeliveredError) -> Steps[None]:
        self._group_metadata = None
        yield self._pauses.next_s()
        if not error.producer_is_spent:
            try:
                yield from self._answer(self.producer, self.producer.abort_transaction(), "abort a transaction")
                self.producer.begin_transaction()
            except TransactionAbortedError:
                pass
            else:
                return
        self._close_when_free(self.producer)
        del self.producer
        asked = self._ask({})
        while not (asked.done() or self._is_awaited()):
            yield ANSWER_SLICE_S
        self._group_metadata = asked.result().group_metadata if asked.done() and asked.result().accepted else None
        yield from self._take_id()

    plant(ExactlyOnce, "go_back", go_back)


def touch_a_directory_before_it_is_locked(plant: Plant) -> None:
    """Opening a task's directory removes what a restore left there, even if that is another process's."""
    opened = TaskDirectory.open

    def open_stores(self: TaskDirectory, builders: Any) -> Any:
        remove_tables(self.path / "rocksdb")
        return opened(self, builders)

    plant(TaskDirectory, "open", open_stores)


def hold_no_standby_back(plant: Plant) -> None:
    """At least once, too, a standby follows its changelogs to their ends."""
    initialize = StandbyTask.__init__

    def init(self: StandbyTask, *args: Any) -> None:
        initialize(self, *args)
        self.held = self.source_changelogs & self.changelogs.keys()
        self._reported_by_metadata = set()

    plant(StandbyTask, "__init__", init)


def forget_what_a_standby_must_read_again(plant: Plant) -> None:
    """Takes partitions for read again that stay where they are, when its actor gets or loses another standby."""
    assigned = Replays.assign

    def assign(self: Replays[Any]) -> None:
        assigned(self)
        for replay in self.by_partition.values():
            replay.thrown_away = None

    plant(Replays, "assign", assign)


def ask_for_a_commit_to_take_an_id(plant: Plant) -> None:
    """The coordinator answers no commit of an actor that has an assignment to confirm, and the actor waits for both."""

    def hear(self: Any) -> Steps[None]:
        answer = yield from answer_to(self._ask({}))
        if not answer.accepted:
            raise RefusedError(answer.reason)

    plant(ExactlyOnce, "_refuse_if_expelled", hear)


def end_actors_that_wait_for_a_broker(plant: Plant) -> None:
    """Makes an assignment that takes long overdue, even if the actor waits for a broker."""
    reported = OverdueOrders.reported
    plant(OverdueOrders, "reported", lambda self, status: reported(self, replace(status, waits=False)))


def write_without_a_lease(plant: Plant) -> None:
    """An actor that its coordinator does not reach works on (at least once)."""
    plant(Standstill, "enforce", lambda self: False)


def go_back_while_a_commit_is_under_way(plant: Plant) -> None:
    """At least once, the tasks read again behind an earlier commit than the one that Kafka takes meanwhile."""
    go_back = AtLeastOnce.go_back

    def without_the_answer(self: AtLeastOnce, error: UndeliveredError) -> Steps[None]:
        self._asked = None
        return go_back(self, error)

    plant(AtLeastOnce, "go_back", without_the_answer)


def give_away_what_a_lost_actor_may_write(plant: Plant) -> None:
    """The coordinator waits for no lease (at least once)."""
    plant(Leases, "give_up", lambda self, name: 0.0)


def _exactly_once(setting: Setting) -> bool:
    return setting.exactly_once


def _shared(setting: Setting) -> bool:
    return setting.exactly_once and setting.clusters > 1


def _restored_from_files(setting: Setting) -> bool:
    several = setting.cpus > 1 or setting.nodes == 1 or "resize" in setting.weights
    return setting.on_rocksdb and setting.worth_a_load < 100 and setting.config["num.standby.replicas"] > 0 and several


def _ghosts_without_fences(setting: Setting) -> bool:
    return not setting.exactly_once and setting.clusters == 1 and setting.config["statestore.cache.max.bytes"] == 0


def _at_least_once_with_standbys(setting: Setting) -> bool:
    return not setting.exactly_once and setting.config["num.standby.replicas"] > 0


BESIDE_A_COMMIT = Choice(
    blocks=("latest",),
    config=(
        ("processing.guarantee", "at_least_once"),
        ("commit.interval.ms", 8000),
        ("statestore.cache.max.bytes", 0),
    ),
    faults=("go_back_beside_a_commit",),
)
"""Rows that are written at once, commits of several records, and an actor that reads again while its commit is under
way."""

BESIDE_A_FENCE = Choice(
    config=(("processing.guarantee", "exactly_once_v2"),),
    faults=(
        "cut_an_actor_from_ray", "isolate_a_coordinator", "broker_outage", "hold_commits", "throttle_an_actor",
    ),
)  # fmt: skip
"""Actors that work although they are taken for lost, commits that come late, coordinators that no broker answers."""


@dataclass(frozen=True)
class Mistake:
    """``shows``: False if no run of this setting can show it, so that none needs to be played. ``choice``: the parts of
    a run without which it shows too seldom."""

    plant: Callable[[Plant], None]
    shows: Callable[[Setting], bool] = lambda _: True
    choice: Choice = ALL_FROM_THE_SEED


MISTAKES: dict[str, Mistake] = {
    mistake.plant.__name__: mistake
    for mistake in (
        Mistake(forget_without_a_fence, _exactly_once),
        Mistake(call_it_fenced_when_no_broker_answers, choice=BESIDE_A_FENCE),
        Mistake(accept_partitions_of_other_members, _shared),
        Mistake(accept_an_old_assignment, _shared),
        Mistake(go_on_after_an_abort, _exactly_once),
        Mistake(take_the_id_after_finding_the_group, _exactly_once),
        Mistake(touch_a_directory_before_it_is_locked, _restored_from_files),
        Mistake(hold_no_standby_back, _at_least_once_with_standbys),
        Mistake(forget_what_a_standby_must_read_again, _at_least_once_with_standbys),
        Mistake(ask_for_a_commit_to_take_an_id, _exactly_once),
        Mistake(end_actors_that_wait_for_a_broker),
        Mistake(write_without_a_lease, _ghosts_without_fences),
        Mistake(give_away_what_a_lost_actor_may_write, _ghosts_without_fences),
        Mistake(go_back_while_a_commit_is_under_way, choice=BESIDE_A_COMMIT),
        Mistake(delete_files_of_uploads_under_way, choice=BESIDE_DELETIONS),
    )
}
