"""The coordinator's memory of the last hour."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.actors.status import ActorStatus
from penstock.cluster import events
from penstock.cluster.application_history import ApplicationHistory, EventKind, EventLevel, HistoryEvent
from penstock.cluster.findings import findings
from penstock.cluster.history.event_list import EventList
from penstock.cluster.history.first_seen import FirstSeen, Since
from penstock.cluster.history.machine_events import Machine, MachineEvents
from penstock.cluster.history.restores import Restores
from penstock.cluster.history.samples import Samples
from penstock.cluster.history.sampling import Sampling
from penstock.cluster.status import ApplicationStatus
from penstock.common.ids import TaskId
from penstock.common.log_line import LogLine


class History:
    """One per coordinator. ``clock_ms`` gives the time in ms since 1970. ``restarted``: another coordinator was there
    before this one, and its history is lost."""

    def __init__(self, machine: Machine, clock_ms: Callable[[], int], restarted: bool) -> None:
        self._clock_ms = clock_ms
        self._began_ms = clock_ms()
        self._samples, self._sampling, self._events = Samples(), Sampling(), EventList()
        self._first_seen = FirstSeen(self._began_ms, restarted)
        self._last_lines: dict[tuple[str, int], int] = {}  # by actor and process id
        self._machine_events, self._restores = MachineEvents(machine, self._add), Restores(self._add)
        if restarted:
            self._add(EventKind.STATE, "the coordinator was restarted: the history begins here", EventLevel.WARNING)

    def decided(self, event: events.Event, instructions: Iterable[events.Instruction]) -> None:
        """Take an event of the state machine, and its instructions."""
        if isinstance(event, events.ActorRecovered):
            self._restores.found(event.actor_id)
        self._machine_events.decided(event, instructions)

    def reported(self, status: ActorStatus) -> None:
        """Take the status of an actor, with lines of its log. Each line counts once, although it may come again."""
        self._restores.reported(status, self._clock_ms())
        if status.log:
            process = status.actor_id, status.pid
            last = self._last_lines.get(process, -1)
            self.logged(line for line in status.log if line.number > last)
            self._last_lines[process] = max(last, status.log[-1].number)

    def logged(self, lines: Iterable[LogLine]) -> None:
        """Take warnings and errors of the log."""
        for line in lines:
            level = EventLevel.WARNING if line.level == "warning" else EventLevel.ERROR
            task = None if line.task is None else _task_id(line.task)
            self._events.add(
                HistoryEvent(line.at_ms, EventKind.LOG, level, line.text, line.actor, task, message=line.event)
            )

    def since(self, status: ApplicationStatus) -> Since:
        """Returns the times since which the findings of this status hold, which is that of now."""
        return self._first_seen.look(findings(status), self._clock_ms())

    @property
    def is_due(self) -> bool:
        """True if it is time for a sample."""
        return self._samples.is_due(self._clock_ms())

    def sample(self, status: ApplicationStatus, tasks: Iterable[TaskId]) -> None:
        """Take a sample: of these tasks, which are all that this application has."""
        self._samples.add(self._sampling.take(status, tasks, self._clock_ms()))
        actors = frozenset(actor.actor_id for actor in status.actors)
        self._restores.forget_all_but(actors)
        self._last_lines = {process: last for process, last in self._last_lines.items() if process[0] in actors}

    def between(self, from_ms: int, to_ms: int, tasks: bool = True, details: bool = True) -> ApplicationHistory:
        """Returns the history of these times, both included: see :meth:`Samples.between`."""
        return ApplicationHistory(
            self._began_ms,
            self._samples.step_ms,
            self._samples.between(from_ms, to_ms, tasks, details),
            self._events.between(from_ms, to_ms),
        )

    def _add(
        self,
        kind: EventKind,
        sentence: str,
        level: EventLevel = EventLevel.INFO,
        actor: str | None = None,
        task: TaskId | None = None,
    ) -> None:
        self._events.add(HistoryEvent(self._clock_ms(), kind, level, sentence, actor, task))


def _task_id(text: str) -> TaskId | None:
    try:
        return TaskId.parse(text)
    except ValueError:  # a user's own line may name anything so
        return None
