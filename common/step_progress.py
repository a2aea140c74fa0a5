"""The progress of a long piece of work, step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

TASKS, RECORDS = "tasks of Spark", "records"


@dataclass(frozen=True)
class StepProgress:
    """The progress of a step: ``done`` of ``total`` units; 0 while the total is not known. ``per_second`` and
    ``left_s`` (seconds) are estimates for records, None for tasks of Spark."""

    step: str
    done: int = 0
    total: int = 0
    unit: str = TASKS
    per_second: float | None = None
    left_s: float | None = None


Progress = Callable[[StepProgress], None]
