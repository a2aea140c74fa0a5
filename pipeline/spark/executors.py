"""Asks Spark's executors, before any work, for what a job needs on their machines."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from pyspark import SparkContext, cloudpickle

from penstock.common.errors import ConfigError, StreamsError
from penstock.pipeline.spark import executor_probe

PACKAGES = {
    "pyarrow": "pyarrow",
    "pandas": "pandas",
    "confluent_kafka": "confluent-kafka",
    "msgspec": "msgspec",
    "obstore": "obstore",
    "orjson": "orjson",
    "psutil": "psutil",
    "pydantic": "pydantic",
    "rocksdict": "rocksdict",
    "sortedcontainers": "sortedcontainers",
    "structlog": "structlog",
    "typing_extensions": "typing-extensions",
}
"""The packages that penstock's code in executors imports, by the names of their modules."""
_TASKS_PER_CORE = 2
_VERSIONS = re.compile(r"Python in worker has different version: ([\d.]+) than that in driver: ([\d.]+)")
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
_REMEDY = "set PYSPARK_PYTHON, or spark.pyspark.python, to a Python {version} that is there on every machine"


def check_executors(context: SparkContext, shipped: str, program: object = None, files: Sequence[str] = ()) -> None:
    """Have each executor that is there import penstock and the packages it needs, and load ``program``.

    ``shipped`` is the folder from which they have to import penstock. ``files`` must be on every machine. Raises
    StreamsError, which names the executor and what it lacks, and ConfigError if the program cannot be pickled.
    """
    probe = executor_probe.Probe("penstock", shipped, PACKAGES, _pickled(program), files)
    count = context.defaultParallelism * _TASKS_PER_CORE  # each free core gets one, and so each executor
    cloudpickle.register_pickle_by_value(executor_probe)  # type: ignore[no-untyped-call]  # untyped in PySpark
    try:
        answers = context.parallelize(range(count), count).mapPartitions(probe.run).collect()
    except Exception as error:  # Java's errors, by py4j
        raise StreamsError(_explained(str(error))) from error
    finally:
        cloudpickle.unregister_pickle_by_value(executor_probe)  # type: ignore[no-untyped-call]  # untyped in PySpark
    problems = sorted({answer for answer in answers if answer[1]})
    if problems:
        (where, what), *others = problems
        more = f" ({len(others)} more problems of executors)" if others else ""
        raise StreamsError(f"Spark's executor on {where} {what}{more}")


def _pickled(program: object) -> bytes:
    try:
        return bytes(cloudpickle.dumps(program))  # type: ignore[no-untyped-call]  # untyped in PySpark
    except Exception as error:  # pickling runs arbitrary code of the user's objects
        raise ConfigError(
            f"the program cannot be sent to Spark's executors: {type(error).__name__}: {error}"
        ) from error


def _explained(error: str) -> str:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if (found := _VERSIONS.search(error)) is not None:
        return f"Spark's executors run Python {found[1]}, the driver {found[2]}: {_REMEDY.format(version=version)}"
    if (found := _NO_PROGRAM.search(error)) is not None:
        return f"Spark's executors have no {found[1]}, the driver's Python: {_REMEDY.format(version=version)}"
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    causes = [line for line in lines if re.match(r"(Caused by: |[\w.]*(Error|Exception): )", line)]
    return f"Spark's executors run no Python: {(causes or lines or ['no reason is known'])[-1]}"
