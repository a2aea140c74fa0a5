"""Names the writer of a record that the broker refuses long after its operator sent it."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.actors.task_host.hosted_task import HostedTask
from penstock.common.errors import ProductionError
from penstock.tasks.program import TaskProgram


def with_writer(error: BaseException, tasks: Iterable[HostedTask]) -> BaseException:
    """Returns ``error``, or, for such a refusal, an error that names the operator or store that writes to the topic,
    and the committed offsets of the input: the record came from one of these offsets or a later one."""
    if not isinstance(error, ProductionError) or error.operator is not None or error.topic is None:
        return error
    writing = {hosted: name for hosted in tasks if (name := _writer(hosted.state_manager.program, error.topic))}
    if not writing:
        return error
    since = sorted(
        f"{tp} from offset {committed.offset} on" for it in writing for tp, committed in it.committed.items()
    )
    made_of = f"; it came from an input record after the last commit: {', '.join(since)}" if since else ""
    operator = " or ".join(sorted(set(writing.values())))
    raised = ProductionError(
        error.what + made_of, operator=operator, topic=error.topic, partition=error.partition, key=error.key
    )
    raised.__cause__ = error
    return raised


def _writer(program: TaskProgram, topic: str) -> str | None:
    if (name := program.sinks.get(topic)) is not None:
        return name
    return next((f"store {store}" for store, log in program.changelogs.items() if log.topic == topic), None)
