"""Reports of Spark become one sentence."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from penstock.common.errors import StreamsError
from penstock.pipeline.spark.causes import causes_named

OF_PYTHON = """An exception was thrown from the Python worker.
Traceback (most recent call last):
ValueError: bad

penstock.common.errors.ProcessingError: ValueError: bad (operator double)
"""
OF_JAVA = """An error occurred while calling o1.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0
	at org.apache.spark.X
Caused by: org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed
	... 3 more
"""
KILLED = "x\nCaused by: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n"


@pytest.mark.parametrize(
    ("report", "named"),
    [
        (OF_PYTHON, "it failed: ProcessingError: ValueError: bad (operator double). Then this"),
        (OF_JAVA, "it failed: SaslAuthenticationException: Authentication failed. Then this"),
        (
            KILLED,
            "it failed: a Python worker of Spark was killed, as by the system when memory is short, or has crashed",
        ),
        ("only a line\nat x", "it failed: only a line. Then this"),
        ("An error occurred while calling o1.collect", "it failed: Spark has ended: its Java was killed"),
    ],
)
def test_the_last_cause_is_named(report: str, named: str) -> None:
    with pytest.raises(StreamsError) as raised, causes_named("it failed", "Then this"):
        raise PySparkException(report)
    assert str(raised.value).startswith(named)
