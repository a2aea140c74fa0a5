"""Reports the faults of an application in sentences, for ``penstock top``, the status, HTTP and the page. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal

from penstock.actors.status import ActorStatus, TaskState, TaskStatus
from penstock.cluster.found_partitioners import parted_topics
from penstock.cluster.rollout import RolloutPhase
from penstock.cluster.skew import skew_of
from penstock.cluster.status import ApplicationState, ApplicationStatus
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.metric_names import NODE, TASK, THREAD
from penstock.common.shown import counted, seconds_text

BEHIND_S = 10.0
"""Seconds from which a task counts as behind."""
BUSY = 0.9
"""Share of time above which an actor, or a task, counts as busy: it has no reserve to catch up."""
_COMMITTING = 0.3
_MOST_NAMED = 5


View = Literal["overview", "topology", "tasks", "stores", "time", "slow", "records", "rollout"]
"""A view of the page, as its addresses name it."""


class Level(Enum):
    """The weight of a finding."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True)
class Finding:
    """One sentence about an application. ``about``: what it is about, the same for as long as it holds, though the
    figures in the sentence change. ``view``: the view of the page that shows more; ``subject``: the id of a task, an
    actor, an operator or a topic there, for records also ``topic/partition``, None if it is about none of them.
    ``since_ms``: the time (ms since 1970) at which it was first seen, None if that is not known."""

    level: Level
    sentence: str
    about: str
    view: View = "overview"
    subject: str | None = None
    since_ms: int | None = None


def findings(status: ApplicationStatus) -> tuple[Finding, ...]:
    """Returns the faults, the worst first, or one finding of level ``OK`` if there are none. Never empty."""
    return tuple(replace(each, since_ms=status.since.get(each.about)) for each in _found(status))


def _found(status: ApplicationStatus) -> list[Finding]:
    if (ended := _ended(status)) is not None:
        return [ended]
    found = [*_faults(status), *_paused(status), *_restoring(status), *_behind(status), *_warnings(status)]
    found.sort(key=lambda each: each.level is not Level.FAULT)
    return found or [_well(status)]


def share_of(actor: ActorStatus) -> float | None:
    """Returns the share of its time, of the last half minute, that ``actor`` was busy with records, punctuators,
    commits and polls; None before it has measured."""
    shares = [_number(actor.measured.get((THREAD, f"{what}-ratio"))) for what in _WORK]
    known = [share for share in shares if share is not None]
    return min(1.0, sum(known)) if known else None


def share_of_task(task: TaskStatus) -> float | None:
    """Returns the share of the last half minute in which ``task`` was processing records; None if it is not known."""
    return _number(task.measured.get((TASK, "process-ratio")))


_WORK = ("process", "punctuate", "commit", "poll")


def _number(value: object) -> float | None:
    return value if isinstance(value, float) else float(value) if isinstance(value, int) else None


def _ended(status: ApplicationStatus) -> Finding | None:
    errors = status.error or next((actor.error for actor in status.actors if actor.error), None)
    match status.state:
        case ApplicationState.ERROR | ApplicationState.PENDING_ERROR:
            ends = "has ended" if status.state.has_ended else "ends"
            return Finding(
                Level.FAULT, f"The application {ends} with an error: {errors or 'no cause was reported'}", "error"
            )
        case ApplicationState.NOT_RUNNING:
            why = f"; it had ended with: {status.error}" if status.error else ""
            return Finding(Level.WARNING, f"The application has stopped{why}", "stopped")
        case ApplicationState.PENDING_SHUTDOWN:
            waits = f": {status.waiting}" if status.waiting else ""
            stops = f"The application stops: its actors process and commit what they have{waits}"
            return Finding(Level.WARNING, stops, "stops")
        case _:
            return None


def _faults(status: ApplicationStatus) -> Iterator[Finding]:
    if status.waiting:
        yield Finding(Level.FAULT, _sentence(status.waiting), "waiting")
    for actor in status.actors:
        if actor.error:
            failed = f"Actor {actor.actor_id} has failed: {actor.error}"
            yield Finding(Level.FAULT, failed, f"failed {actor.actor_id}", "tasks", actor.actor_id)
        if actor.without_lease:
            why = "its lease has expired and the coordinator does not answer"
            sentence = f"Actor {actor.actor_id} has stopped processing: {why}"
            yield Finding(Level.FAULT, sentence, f"without lease {actor.actor_id}", "tasks", actor.actor_id)
    yield from _losses(status)
    by_reason: dict[str, list[TaskId]] = {}
    for task_id, why in sorted(status.unhosted.items()):
        by_reason.setdefault(why, []).append(task_id)
    for why, tasks in by_reason.items():
        lack = "lacks" if len(tasks) == 1 else "lack"
        sentence = f"{_of(len(tasks), status)} {lack} an actor ({_named(tasks)}): {why}"
        one = str(tasks[0]) if len(tasks) == 1 else None
        yield Finding(Level.FAULT, sentence, f"unhosted {tasks[0]}", "tasks", one)
    for stuck in status.stuck:
        yield Finding(Level.FAULT, _sentence(str(stuck)), f"stuck {stuck.task_id}", "tasks", str(stuck.task_id))
    for topics in parted_topics(status.actors):
        joined = f"different partitioners wrote {', '.join(topics)}, which are joined or merged"
        yield Finding(Level.FAULT, f"Results are missing: {joined}", f"parted {topics}", "topology", topics[0])


def _losses(status: ApplicationStatus) -> Iterator[Finding]:
    losses = status.health.brokers
    for broker in losses.missing:
        level = Level.FAULT if broker.leaderless else Level.WARNING
        sentence = losses.sentence(broker, _waiting_for(status, broker.leaderless))
        yield Finding(level, sentence, f"broker {broker.broker_id}", "topology", broker.hardest_hit)
    if losses.leaderless:
        sentence = losses.without_leader_in_words(losses.leaderless, _waiting_for(status, losses.leaderless))
        yield Finding(Level.FAULT, sentence, "leaderless", "topology", losses.leaderless[0].topic)


def _waiting_for(status: ApplicationStatus, partitions: Collection[TopicPartition]) -> list[str]:
    """Returns the tasks that read one of ``partitions``."""
    without = set(partitions)
    return [str(task.task_id) for _, task in _heard(status) if without & {*task.lags, *task.committed, *task.positions}]


def _restoring(status: ApplicationStatus) -> Iterator[Finding]:
    tasks = [task for _, task in _heard(status) if task.state in (TaskState.CREATED, TaskState.RESTORING)]
    if not tasks:
        return
    remaining = sum(task.restore_remaining for task in tasks)
    times = [task.restore_seconds_left for task in tasks if task.restore_remaining]
    known = [left for left in times if left is not None]
    left = f", about {seconds_text(max(known))}" if known and len(known) == len(times) else ""
    restore = "restores" if len(tasks) == 1 else "restore"
    to_go = f"{remaining:,} records to go{left}" if remaining else "about to begin"
    last = max(tasks, key=lambda task: (task.restore_seconds_left or 0.0, task.restore_remaining))
    yield Finding(
        Level.WARNING, f"{_of(len(tasks), status)} {restore}: {to_go}", "restoring", "tasks", str(last.task_id)
    )


def _behind(status: ApplicationStatus) -> Iterator[Finding]:
    late = [
        (actor, task)
        for actor, task in _heard(status)
        if task.state is TaskState.RUNNING and task.lag and (task.behind_s or 0.0) >= BEHIND_S
    ]
    if not late:
        return
    actor, slowest = max(late, key=lambda each: (each[1].behind_s or 0.0, each[1].lag))
    are = "is" if len(late) == 1 else "are"
    by = seconds_text(slowest.behind_s or 0.0)
    sentence = f"{_of(len(late), status)} {are} behind by {by if len(late) == 1 else f'up to {by}'}"
    skew = skew_of(slowest, [task for _, task in _heard(status)])
    if skew is not None and not status.paused:
        gets = f"processes {skew.processed:.0%} of the records of its sub-topology, and has {skew.waiting:.0%} of those"
        sentence += f": task {slowest.task_id} {gets} that wait: look at its keys"
        yield Finding(Level.WARNING, sentence, "behind", "records", f"{skew.source.topic}/{skew.source.partition}")
        return
    if not status.paused:  # a pause has a finding of its own
        sentence += f": {_why_behind(status, actor, slowest)}"
    busiest = _busiest_operator(actor)
    if busiest is not None and (share_of(actor) or 0.0) >= BUSY:
        yield Finding(Level.WARNING, sentence, "behind", "topology", busiest[0])
    else:
        yield Finding(Level.WARNING, sentence, "behind", "tasks", str(slowest.task_id))


def _busiest_operator(actor: ActorStatus) -> tuple[str, float] | None:
    """Returns the operator that takes most of the time of ``actor``, and the share that it takes as far as it is
    measured; None if no operator takes half of the time of the tasks whose operators are measured, or if these take
    less than a quarter of the time in which the actor is busy."""
    shares: dict[str, float] = {}
    known = 0.0
    for task in actor.tasks:
        own = {
            key[2]: share
            for key, value in task.measured.items()
            if key[:2] == (NODE, "busy-ratio") and (share := _number(value)) is not None
        }
        for operator, share in own.items():
            shares[operator] = shares.get(operator, 0.0) + share
        known += max(share_of_task(task) or 0.0, sum(own.values())) if own else 0.0
    operator, most = max(shares.items(), key=lambda each: each[1], default=("", 0.0))
    busy = share_of(actor) or 1.0
    found = operator and most >= known / 2 and most >= busy / 8 and known >= busy / 4
    return (operator, min(most, 1.0)) if found else None


def _busy_in(actor: ActorStatus, busy: float) -> str:
    """Returns the share of its time in which ``actor`` is busy, with the operator that takes most of it."""
    if (found := _busiest_operator(actor)) is None:
        return f"{busy:.0%}"
    operator, share = found
    return f"{busy:.0%} in {operator}" if share > busy - 0.02 else f"{busy:.0%}, {share:.0%} of its time in {operator},"


def _calls_of(task: TaskStatus) -> str | None:
    """Returns the sentence about the calls out for which ``task`` waits; None if it waits for none."""
    at_work: dict[str, float] = {}
    for key, value in task.measured.items():
        if key[0] == NODE and (found := _number(value)):
            operator = str(key[-1])
            if key[1] == "calls-breaker-state":
                return f"the circuit breaker of {operator} is open, because its calls fail (docs/CALLS.md)"
            if key[1] in ("calls-in-flight", "calls-waiting"):
                at_work[operator] = at_work.get(operator, 0.0) + found
    if not at_work:
        return None
    operator, number = max(at_work.items(), key=lambda each: each[1])
    return f"{number:,.0f} records wait for calls of {operator}: look at the service that it calls (docs/CALLS.md)"


def _why_behind(status: ApplicationStatus, actor: ActorStatus, task: TaskStatus) -> str:
    """Returns the reason that the measurements suggest, and the remedy."""
    name, busy = actor.actor_id, share_of(actor)
    if busy is None:
        return f"task {task.task_id} on {name} has {task.lag:,} records to read"
    committing = _number(actor.measured.get((THREAD, "commit-ratio"))) or 0.0
    if committing >= _COMMITTING:
        return f"records of {name} wait for commits {committing:.0%} of the time (commit.interval.ms)"
    if busy < BUSY and (calls := _calls_of(task)) is not None:
        return f"{name}, which has task {task.task_id}, is busy only {busy:.0%}: {calls}"
    if busy < BUSY and status.has_just_resumed:
        until = "the application was paused until a moment ago"
        return f"{until}, and task {task.task_id} on {name} has {task.lag:,} records to read"
    if busy < BUSY:
        waits = "waits for a broker, the coordinator or stores" if actor.waits else "its broker delivers slowly, or "
        if not actor.waits:
            waits += "it waits for records of another input" if len(task.lags) > 1 else "it has only begun"
        return f"{name}, which has task {task.task_id}, is busy only {busy:.0%}: {waits}"
    own = share_of_task(task) or 0.0
    if own >= BUSY or len(actor.tasks) == 1:
        alone = f"{name} is busy {_busy_in(actor, busy)} with task {task.task_id} alone"
        return f"{alone}: only more partitions, or less work, help it"
    return f"{name} is busy {_busy_in(actor, busy)} with {len(actor.tasks)} tasks: {_more_actors(status)}"


def _more_actors(status: ApplicationStatus) -> str:
    """Returns the remedy for an actor that has too many tasks."""
    scaling, now = status.scaling, len(status.actors)
    if scaling is not None and scaling.wanted > now:
        missing = scaling.wanted - now
        return (
            f"{counted(missing, 'actor')} more will share them, but {'has' if missing == 1 else 'have'} not started yet"
        )
    if scaling is not None and scaling.advised > now:
        return (
            f"'penstock scale {status.application_id} {scaling.advised}' spreads them, if the Ray cluster has free CPUs"
        )
    return "more actors would share them"


def _paused(status: ApplicationStatus) -> Iterator[Finding]:
    if status.paused:
        resume = f"'penstock resume {status.application_id}' continues"
        yield Finding(Level.WARNING, f"The application is paused: {resume}", "paused")


def _warnings(status: ApplicationStatus) -> Iterator[Finding]:
    rollout = status.rollout
    if rollout.phase is RolloutPhase.ROLLED_BACK:
        back = f"version {rollout.last} was rolled back to version {rollout.generation}"
        yield Finding(Level.WARNING, _sentence(f"{back}: {rollout.reason}"), f"rolled back {rollout.last}", "rollout")
    elif not rollout.phase.is_over:
        sentence = f"Version {rollout.last} of the program is being rolled out: {rollout.phase.value}"
        yield Finding(Level.WARNING, sentence, f"rollout {rollout.last}", "rollout")
    failed = sorted((task.task_id, task.checkpoint_error) for _, task in _heard(status) if task.checkpoint_error)
    if failed:
        which = f"{_of(len(failed), status)} cannot store {'its' if len(failed) == 1 else 'their'} checkpoints"
        yield Finding(Level.WARNING, f"{which}: {failed[0][1]}", "checkpoints", "tasks", str(failed[0][0]))
    dropped = [(rate, task) for _, task in _heard(status) if (rate := _dropped(task)) > 0]
    if dropped:
        rate, task = sum(each for each, _ in dropped), max(dropped, key=lambda each: each[0])[1]
        most = f"task {task.task_id} has dropped {task.dropped_records:,} so far"
        sentence = f"Records are dropped, {rate:,.1f} per second: {most}; the log names them"
        yield Finding(Level.WARNING, sentence, "dropped", "tasks", str(task.task_id))


def _dropped(task: TaskStatus) -> float:
    return _number(task.measured.get((TASK, "dropped-records-rate"))) or 0.0


def _well(status: ApplicationStatus) -> Finding:
    if status.state is not ApplicationState.RUNNING:
        assigning = f"The application is {status.state.value}: its tasks are being assigned"
        return Finding(Level.WARNING, assigning, f"state {status.state.value}", "tasks")
    if not status.task_count:
        return Finding(
            Level.WARNING, "The group gives this Ray cluster no tasks: other clusters have them all", "no tasks"
        )
    behind = [task.behind_s for _, task in _heard(status) if task.behind_s is not None]
    busy = [share for actor in status.actors if (share := share_of(actor)) is not None]
    parts = [f"{counted(status.task_count, 'task')} on {counted(len(status.actors), 'actor')}"]
    if behind:
        parts.append("no records wait" if max(behind) == 0 else f"at most {seconds_text(max(behind))} behind")
    if busy:
        parts.append(f"the busiest actor is busy {max(busy):.0%}")
    return Finding(Level.OK, f"All is well: {', '.join(parts)}", "well")


def _heard(status: ApplicationStatus) -> Iterable[tuple[ActorStatus, TaskStatus]]:
    """Each task of an actor that is not silent."""
    return ((it, task) for it in status.actors if it.actor_id not in status.silent for task in it.tasks)


def _of(count: int, status: ApplicationStatus) -> str:
    return f"{count} of {counted(status.task_count, 'task')}"


def _named(tasks: list[TaskId]) -> str:
    return ", ".join(map(str, tasks[:_MOST_NAMED])) + (" …" if len(tasks) > _MOST_NAMED else "")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
