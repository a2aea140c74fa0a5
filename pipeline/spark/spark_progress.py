"""The progress of Spark."""

from __future__ import annotations

from pyspark import SparkContext


def tasks_of(context: SparkContext) -> tuple[int, int]:
    """Returns the number of tasks that are done in the stages that Spark works on, and the number of all of them: 0
    while that is not known."""
    tracker = context.statusTracker()
    infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    known = [info for info in infos if info is not None]
    return sum(info.numCompletedTasks for info in known), sum(info.numTasks for info in known)
