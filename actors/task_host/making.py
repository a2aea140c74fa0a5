"""Makes the active tasks of an actor: over stores that it opens, over those of a standby, or over the task's own stores
again."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.actors.calls.call_host import CallHost
from penstock.actors.task_host.hosted_task import HostedTask
from penstock.actors.task_host.measured_runs import MeasuredRuns
from penstock.actors.task_host.operator_figures import OperatorFigures
from penstock.actors.task_host.partitioner_check import PartitionerCheck
from penstock.actors.task_host.standby_task import StandbyTask
from penstock.actors.task_host.task_collector import TaskCollector
from penstock.actors.task_host.task_directory import open_task_directory
from penstock.actors.task_host.task_meters import TaskMeters
from penstock.common.ids import TaskId, TopicPartition
from penstock.kafka.contracts import Sending
from penstock.state.write_buffer.memory_budget import MemoryBudget
from penstock.tasks.program import TaskProgram
from penstock.tasks.state_manager import StateManager
from penstock.tasks.task import Task
from penstock.tasks.wiring import Store


def open_hosted_task(
    program: TaskProgram,
    task_id: TaskId,
    producer: Sending,
    budget: MemoryBudget,
    sources: frozenset[TopicPartition],
    global_stores: Mapping[str, Store],
    calls: CallHost,
    runs: MeasuredRuns,
) -> HostedTask:
    """Open the stores of ``task_id`` below the state directory and make the task over them in the thread's budget.

    ``sources`` is what the task reads. It may look into ``global_stores``, ``calls`` runs its calls, and
    ``runs`` picks those of its runs that are measured. Raises
    StateStoreLockedError when another process has the stores open, StateStoreCorruptError when they are corrupt and one
    of them has no changelog. Other corrupt stores are deleted: they can be restored from their changelogs.
    """
    config = program.config
    root = config.state_dir / config.application_id
    directory, stores = open_task_directory(root, task_id, tuple(program.stores.values()))
    meters = _meters_of(program, task_id, runs)
    try:
        manager = StateManager(task_id, program, stores, producer, budget)
        task = _task_over(manager, producer, global_stores, meters, calls)
    except BaseException:
        stores.close()
        raise
    return HostedTask(task, directory, sources, meters)


def _meters_of(program: TaskProgram, task_id: TaskId, runs: MeasuredRuns) -> TaskMeters:
    fails = program.config.partitioner_mismatch == "fail"
    check = PartitionerCheck(task_id, program.meetings, fails=fails)
    sources = {topic: source.node for topic, source in program.sources.items()}
    return TaskMeters(sources, check, OperatorFigures(runs, sources))


def promote(
    standby: StandbyTask,
    producer: Sending,
    budget: MemoryBudget,
    global_stores: Mapping[str, Store],
    calls: CallHost,
    runs: MeasuredRuns,
) -> HostedTask:
    """Make the active task with the stores of ``standby``, which then is a standby no longer."""
    program, stores = standby.state_manager.program, standby.state_manager.detach()
    meters = _meters_of(program, standby.id, runs)
    try:
        manager = StateManager(standby.id, program, stores, producer, budget)
        task = _task_over(manager, producer, global_stores, meters, calls)
    except BaseException:
        stores.close()
        raise
    standby.directory.note_role(standby=False)
    return HostedTask(task, standby.directory, standby.reads, meters)


def renew_hosted_task(
    hosted: HostedTask,
    producer: Sending,
    budget: MemoryBudget,
    global_stores: Mapping[str, Store],
    calls: CallHost,
) -> HostedTask:
    """Close ``hosted``, but not its stores. Returns a new task with these stores, as of the last commit, which has done
    nothing yet. May be called again after an error."""
    stores, program = hosted.state_manager.detach(), hosted.state_manager.program
    limit = hosted.task.calls.limit_after_abort() if hosted.task.calls is not None else None
    hosted.close()
    manager, meters = StateManager(hosted.id, program, stores, producer, budget), hosted.meters
    task = _task_over(manager, producer, global_stores, meters, calls)
    if task.calls is not None and program.config.processing_guarantee == "exactly_once_v2":
        task.calls.limit = limit
    meters.renewed(hosted.task.metrics(), hosted.queued())
    return HostedTask(task, hosted.directory, hosted.reads, meters)


def _task_over(
    state_manager: StateManager,
    producer: Sending,
    global_stores: Mapping[str, Store],
    meters: TaskMeters,
    calls: CallHost,
) -> Task:
    try:
        collector = TaskCollector(producer)
        state_manager.context.failures.wait = collector.wait
        return Task(
            state_manager,
            collector,
            global_stores,
            sender_of=meters.sender_of(producer),
            call_runner=calls.runner(),
            meter=meters.operators.new_meter(),
        )
    except BaseException:
        state_manager.detach()  # from the budget
        raise
