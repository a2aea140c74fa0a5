"""Rolling upgrades: the obstacles to one, and reports on one that is under way. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.api.processed import Ascending
from penstock.cluster.programs.deploy_plan import DeployPlan, Fate, StoreFate, tasks_of
from penstock.cluster.programs.description import Description
from penstock.cluster.read_side import ApplicationStatus, Rollout, RolloutPhase, TaskState
from penstock.common.ids import TaskId
from penstock.common.shown import counted


def obstacles(found: DeployPlan, old: Description, new: Description) -> list[str]:
    """Returns the reasons why ``new`` cannot take over the tasks of ``old`` one by one, in the words of ``penstock
    plan``; none if it can. Both versions work side by side for a while, so tasks, stores and internal topics must be
    the same."""
    lines = [
        f"tasks {tasks_of(it.was)} -> {tasks_of(it.now)}: {_why(it.fate, it.note)}"
        for it in found.tasks
        if _bad(it.fate)
    ]
    lines += [
        f"store {it.name}: {_why(it.fate, it.note)}"
        for it in found.stores
        if _bad(it.fate) and not _is_refilled(it, old, new)
    ]
    inner = [it for it in found.topics if it.use != "output"]
    return lines + [f"{it.use} topic {it.name}: {_why(it.fate, it.note)}" for it in inner if _bad(it.fate)]


def rollout_lines(status: ApplicationStatus) -> list[str]:
    """Describes the last roll-out; empty if it has ended well."""
    rollout = status.rollout
    if rollout.phase is RolloutPhase.DONE:
        return []
    if rollout.phase is RolloutPhase.ROLLED_BACK:
        return [f"version {rollout.last} was rolled back to version {rollout.generation}: {rollout.reason}"]
    moved = f"{len(moved_tasks(status))} of {status.task_count} tasks run it"
    if rollout.phase is RolloutPhase.ROLLING_BACK:
        return [f"version {rollout.last} is rolled back to version {rollout.generation}, {moved}: {rollout.reason}"]
    return [f"version {rollout.generation}: {rollout.phase.value}, {moved}"]


def moved_tasks(status: ApplicationStatus) -> dict[TaskId, str]:
    """Returns the tasks that run the current version, and the actors that have them."""
    return {
        task.task_id: actor.actor_id
        for actor in status.actors
        for task in actor.tasks
        if actor.generation == status.rollout.generation
        and task.state is TaskState.RUNNING
        and status.placement.get(task.task_id) == actor.actor_id
    }


class Counted:
    """The records that the version on trial has processed and dropped, on all actors that it has had."""

    def __init__(self) -> None:
        self._processed: Ascending[tuple[str, TaskId]] = Ascending()
        self._dropped: Ascending[tuple[str, TaskId]] = Ascending()

    def look(self, status: ApplicationStatus) -> None:
        """Take the counts that the version's actors report now."""
        for actor in status.actors:
            if actor.generation == status.rollout.generation:
                for task in actor.tasks:
                    self._processed.take((actor.actor_id, task.task_id), task.records_processed)
                    self._dropped.take((actor.actor_id, task.task_id), task.dropped_records)

    @property
    def dropped(self) -> int:
        """Number of dropped records, including those that an exception handler dropped."""
        return sum(self._dropped.counts.values())

    def __str__(self) -> str:
        """Returns the counts as the end of a sentence."""
        processed = sum(self._processed.counts.values())
        return f"processed {counted(processed, 'record')} and dropped {self.dropped:,}"


class Progress:
    """Turns one status after the other into lines that were not printed yet."""

    def __init__(self) -> None:
        self._rollout: Rollout | None = None
        self._waiting: str | None = None
        self._from: dict[TaskId, str] = {}
        self._shown: dict[TaskId, str] = {}

    def lines(self, status: ApplicationStatus) -> Iterator[str]:
        """Yields the lines that are new since the last call."""
        rollout = status.rollout
        if self._rollout is None or rollout.generation != self._rollout.generation:
            self._shown, self._from = {}, dict(status.placement)
        moved = moved_tasks(status)
        if rollout.phase not in (RolloutPhase.STARTING, RolloutPhase.DONE, RolloutPhase.ROLLED_BACK):
            yield from self._moves(moved, status)
        if rollout != self._rollout:
            self._rollout = rollout
            yield from _phase(rollout, status.task_count)
        if status.waiting != self._waiting and status.waiting is not None:
            yield status.waiting
        self._waiting = status.waiting

    def _moves(self, moved: dict[TaskId, str], status: ApplicationStatus) -> Iterator[str]:
        for task, actor in sorted(moved.items()):
            if self._shown.get(task) != actor:
                self._shown[task] = actor
                before = self._from.get(task, actor)
                way = actor if before == actor else f"{before} -> {actor}"
                count = f"{len(self._shown)} of {status.task_count}"
                yield f"task {task}: {way}, {count} tasks run the {_which(status.rollout)}"


def _phase(rollout: Rollout, tasks: int) -> Iterator[str]:
    match rollout.phase:
        case RolloutPhase.STARTING:
            yield (
                "stream actors of the new version start; if no CPU is free for them within 10 s, the old actors are "
                "stopped one by one"
            )
        case RolloutPhase.WATCHING if tasks:
            yield f"all {tasks} tasks run the new version; watching it for {rollout.watch_s:g} s"
        case RolloutPhase.ROLLING_BACK:
            first = rollout.reason.partition("\n")[0]  # the command ends with the whole of it
            yield f"the new version failed, and is rolled back: {first}"
        case _:
            return


def _which(rollout: Rollout) -> str:
    return "old version again" if rollout.phase is RolloutPhase.ROLLING_BACK else "new version"


def _bad(fate: Fate) -> bool:
    return fate is not Fate.KEPT


def _why(fate: Fate, note: str) -> str:
    return f"{fate.value} ({note})" if note else fate.value


def _is_refilled(store: StoreFate, old: Description, new: Description) -> bool:
    """Returns True for a store in memory: it is restored whenever its task moves, by this version as by any other."""
    if store.fate is not Fate.RESTORED or store.was != store.now:
        return False
    was, now = old.stores[store.name][1], new.stores[store.name][1]
    return not (was.persistent or now.persistent) and was.layout == now.layout and was.changelog == now.changelog
