"""A stand-in for Spark's status: the progress of each step."""

from __future__ import annotations

from penstock.pipeline.spark.spark_progress import SparkProgress
from tests.waiting import eventually


class Spark:
    """``now``: the tasks that are done, and those there are."""

    def __init__(self) -> None:
        self.now = (0, 0)
        self.gone = False
        self.reported: list[tuple[str, int, int]] = []

    def tasks(self) -> tuple[int, int]:
        if self.gone:
            raise ConnectionError("the JVM has ended")
        return self.now

    def tell(self, step: str, done: int, total: int) -> None:
        self.reported.append((step, done, total))


def test_a_step_is_reported_at_its_beginning_and_when_spark_has_come_further() -> None:
    spark = Spark()
    progress = SparkProgress(spark.tasks, spark.tell)
    progress.look()
    progress.begin("stage 1 of 1")
    for now in ((0, 0), (1, 6), (1, 6), (5, 6)):
        spark.now = now
        progress.look()
    progress.begin("writing results")
    assert spark.reported == [
        ("stage 1 of 1", 0, 0),
        ("stage 1 of 1", 1, 6),
        ("stage 1 of 1", 5, 6),
        ("writing results", 0, 0),
    ]


def test_a_thread_asks_until_the_end_and_a_jvm_that_has_ended_ends_it() -> None:
    spark = Spark()
    spark.now = (2, 8)
    with SparkProgress(spark.tasks, spark.tell) as progress:
        progress.begin("writing state")
        eventually(lambda: spark.reported[-1] == ("writing state", 2, 8), "asked", 30)
        spark.gone = True
        eventually(lambda: not progress._thread.is_alive(), "ended", 30)
