"""The figures of the calls out of a task, for metrics."""

from __future__ import annotations

from penstock.common.metric_names import NODE, Measured
from penstock.tasks.calls.machine import CallMachine
from penstock.tasks.calls.task_calls import TaskCalls


def call_figures(calls: TaskCalls | None) -> Measured:
    """Returns the figures of each operator that calls out. Counters begin with the task."""
    measured: Measured = {}
    for operator in calls.operators if calls is not None else ():
        for name, value in _of(operator.machine).items():
            measured[NODE, f"calls-{name}", operator.name] = value
    return measured


def _of(machine: CallMachine) -> dict[str, float]:
    counts, answers = machine.counts, machine.answers
    durations = sorted(counts.durations_ms) or [0.0]
    return {
        "in-flight": len(machine.running),
        "waiting": len(machine.unfinished) - len(machine.running),
        "total": counts.calls,
        "retried-total": counts.retries,
        "timed-out-total": counts.timeouts,
        "failed-total": counts.failures,
        "shared-total": 0 if answers is None else answers.hits + answers.collapsed,
        "breaker-state": int(machine.breaker_state),
        "latency-p50": durations[len(durations) // 2],
        "latency-p99": durations[int(len(durations) * 0.99)],
    }
