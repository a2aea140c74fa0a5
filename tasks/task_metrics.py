"""What a task has counted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskMetrics:
    """Counters since the task was made, under Kafka Streams' names."""

    process_total: int
    dropped_records_total: int
    stream_time_ms: int
    punctuate_total: int = 0
    enforced_processing_total: int = 0
