"""The state of an application as lines, for an output that is no terminal."""

from __future__ import annotations

from penstock.api.processed import Processed
from penstock.cli.live_view import lag_text, state_text, waiting_lines
from penstock.cluster.read_side import ApplicationState, ApplicationStatus, TaskState

_CHANGED_EACH_S = 5.0
_UNCHANGED_EACH_S = 60.0


class StatusLines:
    """A line at each change of the state; every 5 s if anything else has changed, and else once a minute."""

    def __init__(self) -> None:
        self._state: ApplicationState | None = None
        self._at_s = 0.0
        self._last_text = ""
        self._count = 0
        self._processed = Processed()

    def line(self, status: ApplicationStatus, now_s: float) -> str | None:
        """The line to print now, or None. ``now_s`` is any clock that only goes forward."""
        count = sum(self._processed.of(status.tasks).values())
        since_s = now_s - self._at_s
        if status.state is self._state and since_s < _CHANGED_EACH_S:
            return None
        text = _text_of(status, count)
        if status.state is self._state and text == self._last_text and since_s < _UNCHANGED_EACH_S:
            return None
        rate = (count - self._count) / since_s if self._at_s else 0.0
        self._state, self._at_s, self._last_text, self._count = status.state, now_s, text, count
        return text.replace(_RATE, f"{rate:,.0f} records/s")


_RATE = "{rate}"


def _text_of(status: ApplicationStatus, processed: int) -> str:
    # An actor may still have tasks that the group gives to this cluster no more.
    running = sum(task.state is TaskState.RUNNING and task.task_id in status.placement for task in status.tasks)
    where = f"  {status.http_address}" if status.http_address else ""
    why = "".join(f"\n{line}" for line in waiting_lines(status))
    return (
        f"{status.application_id}  {state_text(status)}  {running}/{status.task_count} tasks run  "
        f"processed {processed:,}  {_RATE}  lag {lag_text(status)}{where}{why}"
    )
