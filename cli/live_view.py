"""The live view of an application, which ``penstock run`` and the demo show."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.api.processed import Processed, Rates
from penstock.api.standbys import standbys_of, standbys_text
from penstock.cli.rolling import rollout_lines
from penstock.cluster.found_partitioners import parted_topics, partitioners_of
from penstock.cluster.read_side import SILENT, WAITING, ApplicationState, ApplicationStatus, TaskState, TaskStatus
from penstock.common.ids import TaskId
from penstock.common.partitioners import Partitioner
from penstock.common.shown import seconds_text

_MOST_NAMED = 10

_STATE_STYLES = {
    ApplicationState.RUNNING: "bold green",
    ApplicationState.REBALANCING: "bold yellow",
    ApplicationState.ERROR: "bold red",
    ApplicationState.PENDING_ERROR: "bold red",
}


_PARTITIONERS = {
    Partitioner.CRC32: "librdkafka's default partitioner (CRC32) places them, not Kafka's",
    Partitioner.UNKNOWN: "another partitioner than Kafka's default places them",
}


class LiveView:
    """Turns successive statuses into tables. Keeps only what rates need: use one instance per view. The first frame
    shows no rates, because a rate needs two. Without ``rates`` there is no column for them, as for a single frame.
    """

    def __init__(self, rates: bool = True) -> None:
        self._shows_rates = rates
        self._processed = Processed()
        self._rates: Rates[TaskId] = Rates()

    def render(self, status: ApplicationStatus, now_s: float, note: str = "") -> RenderableType:
        """One frame. ``now_s`` is any clock that only goes forward; ``note`` is shown above the table."""
        tasks = {task.task_id: task for task in status.tasks}
        processed = self._processed.of(status.tasks)
        rates = self._rates.of(processed, now_s)
        lines: list[RenderableType] = [_headline(status)]
        if note:
            lines.append(Text(note))
        lines += [Text(line, style="yellow") for line in (*rollout_lines(status), *waiting_lines(status))]
        lines += [Text(str(stuck), style="red") for stuck in status.stuck]
        lines += [Text(line, style="red") for line in partitioner_lines(status)]
        lines.append(_table(status, tasks, processed, rates, self._shows_rates))
        errors = [f"{actor.actor_id}: {actor.error}" for actor in status.actors if actor.error]
        lines += [Text(error, style="red") for error in ([status.error] if status.error else []) + errors]
        return Group(*lines)


def state_text(status: ApplicationStatus) -> str:
    """The application's state, and whether it is paused."""
    return f"{status.state.value} (paused)" if status.paused else status.state.value


def lag_text(status: ApplicationStatus) -> str:
    """The lag of all tasks together, as far as it is known."""
    known = sum(task.lag for actor in status.actors for task in actor.tasks if actor.actor_id not in status.silent)
    return f"{known:,}" if status.lag_is_known else f"{known:,} + ?"


def waiting_lines(status: ApplicationStatus) -> list[str]:
    """Returns lines with the reason why the application waits, the tasks without an actor, and the tasks that wait for
    a serde. Tasks with the same reason share a line. The last line is the error of checkpoints, if any."""
    lines = [status.waiting] if status.waiting else []
    lines += [
        f"{actor.actor_id} has stopped processing: its lease has expired and the coordinator does not answer"
        for actor in status.actors
        if actor.without_lease
    ]
    by_reason: dict[str, list[TaskId]] = {}
    for task_id, why in sorted(status.unhosted.items()):
        by_reason.setdefault(why, []).append(task_id)
    for task in sorted(status.tasks, key=lambda task: task.task_id):
        if task.waits_for is not None:
            by_reason.setdefault(task.waits_for, []).append(task.task_id)
    for why, tasks in by_reason.items():
        one = len(tasks) == 1
        which = ", ".join(map(str, tasks[:_MOST_NAMED])) + (" …" if len(tasks) > _MOST_NAMED else "")
        lines.append(f"{len(tasks)} task{'' if one else 's'} wait{'s' if one else ''} ({which}): {why}")
    return lines + _checkpoint_lines(status)


def _checkpoint_lines(status: ApplicationStatus) -> list[str]:
    """Returns a line for the first of the tasks whose last checkpoint was not stored."""
    failed = [(task.task_id, task.checkpoint_error) for task in status.tasks if task.checkpoint_error is not None]
    if not failed:
        return []
    task_id, error = min(failed)
    more = f" (and of {len(failed) - 1} other tasks)" if len(failed) > 1 else ""
    return [f"no checkpoint is stored of task {task_id}{more}, retrying: {error}"]


def partitioner_lines(status: ApplicationStatus) -> list[str]:
    """A line for each topic that Kafka's default partitioner did not write, and for each join of topics that different
    partitioners wrote."""
    joins = [
        f"results are missing: different partitioners wrote {', '.join(topics)}, which are joined or merged"
        for topics in parted_topics(status.actors)
    ]
    topics = [f"topic {topic}: keys as {_PARTITIONERS[it]}" for topic, it in partitioners_of(status.actors).items()]
    return joins + topics


def _headline(status: ApplicationStatus) -> Text:
    line = Text(status.application_id, style="bold").append("  ", style="default")
    line.append(state_text(status), style="bold yellow" if status.paused else _STATE_STYLES.get(status.state, "bold"))
    if status.http_address:
        line.append(f"  {status.http_address}/docs", style="dim")
    return line


def _table(
    status: ApplicationStatus,
    tasks: Mapping[TaskId, TaskStatus],
    processed: Mapping[TaskId, int],
    rates: Mapping[TaskId, float] | None,
    shows_rates: bool,
) -> Table:
    table = Table(show_footer=True, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("task", "all")
    table.add_column("actor")
    standbys = standbys_of(status)
    if standbys:
        table.add_column("standbys")
    table.add_column("state")
    table.add_column("processed", f"{sum(processed.values()):,}", justify="right")
    if shows_rates:
        table.add_column("records/s", "" if rates is None else f"{sum(rates.values()):,.0f}", justify="right")
    table.add_column("lag", lag_text(status), justify="right")
    table.add_column("dropped", f"{sum(task.dropped_records for task in tasks.values()):,}", justify="right")
    table.add_column("lost", f"{sum(task.lost_records for task in tasks.values()):,}", justify="right")
    for task_id in sorted({*tasks, *status.placement, *status.unhosted}):
        task, actor_id = tasks.get(task_id), status.placement.get(task_id, "")
        standby_cells = [standbys_text(standbys.get(task_id, ()))] if standbys else []
        if task is None:
            unknown = ["", *([""] if shows_rates else []), "?"] if task_id in status.unhosted else []
            table.add_row(str(task_id), actor_id, *standby_cells, Text(WAITING, style="yellow"), *unknown)
            continue
        silent = actor_id in status.silent
        table.add_row(
            str(task_id),
            actor_id,
            *standby_cells,
            Text(SILENT, style="red") if silent else _state(task),
            f"{processed[task_id]:,}",
            *([] if not shows_rates else ["" if rates is None else f"{rates.get(task_id, 0.0):,.0f}"]),
            "?" if silent else f"{task.lag:,}",
            f"{task.dropped_records:,}",
            f"{task.lost_records:,}",
        )
    return table


def _state(task: TaskStatus) -> Text:
    if task.state is TaskState.RESTORING:
        text = f"restoring, {task.restore_remaining:,} to go"
        if (left_s := task.restore_seconds_left) is not None:
            text += f", {task.restore_rate:,.0f}/s, {seconds_text(left_s)}"
        return Text(text, style="yellow")
    return Text(task.state.value, style="green" if task.state is TaskState.RUNNING else "yellow")
