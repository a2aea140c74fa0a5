"""What a task has counted."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class TaskMetrics:
    """Counters since the task was made, under Kafka Streams' names."""

    process_total: int
    dropped_records_total: int
    stream_time_ms: int
    punctuate_total: int = 0
    enforced_processing_total: int = field(default=0, compare=False)
    """How often an empty partition was waited for in vain: a matter of how often the host calls."""
    dropped_by_handlers: int = field(default=0, compare=False)
    """Those of the dropped records that a handler of exceptions dropped, which reports them as it likes."""
