"""The Spark session: a Java, settings, and executors that import what this process imports."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # has no types
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from penstock.common.errors import StreamsError
from penstock.pipeline.spark.executors import check_executors
from penstock.pipeline.spark.java_for_spark import java_home
from penstock.pipeline.spark.java_output import quiet_start
from penstock.pipeline.spark.place import SparkPlace
from penstock.pipeline.spark.quiet import own_interrupts, without_log_of_py4j
from penstock.pipeline.spark.shipped_code import ship_code
from penstock.pipeline.spark.spark_settings import effective_settings, is_local, settings_of_lines

LOCAL_MASTER = "local[*]"
_GATEWAY = "PYSPARK_GATEWAY_PORT"
"""Set by ``spark-submit`` for the program that it runs: its Java has started already, with the user's settings."""


def require_spark() -> None:
    """Find a Java before any work. Raises LocalBrokerError if there is none."""
    if not _is_submitted():
        java_home()


@contextmanager
def spark_session(place: SparkPlace | str | None, name: str, *, program: object = None) -> Iterator[SparkSession]:
    """Yields a session for the job ``name``, as Spark shows it, at a place or master URL. The code of penstock and of
    the user goes to executors on other machines, which are asked for all else that the job needs.

    ``program`` is what executors on other machines must be able to load. If this process has a session already, a new
    one on the same Spark is used, and that Spark continues afterwards; else Spark is stopped at the end, and its
    temporary files are deleted.

    Raises what ``require_spark`` raises, ConfigError for settings that cannot be, and StreamsError if Spark does not
    start or an executor lacks something.
    """
    at = place if isinstance(place, SparkPlace) else SparkPlace(place)
    running = SparkSession.getActiveSession()
    with tempfile.TemporaryDirectory(prefix="penstock-spark-") as scratch, without_log_of_py4j():
        spark = _started(at, name, scratch) if running is None else _beside(running, at.conf)
        context = spark.sparkContext
        try:
            if not is_local(str(context.master)):
                check_executors(context, ship_code(context, Path(scratch)), program)
            yield spark
        finally:
            if running is None:
                with suppress(Py4JError, ConnectionError):  # its Java may be gone, which the work has reported
                    spark.stop()


def master_of(place: SparkPlace | str | None) -> str:
    """Returns the master URL at which a session for ``place`` runs."""
    at = place if isinstance(place, SparkPlace) else SparkPlace(place)
    running = SparkSession.getActiveSession()
    if running is not None:
        return str(running.sparkContext.master)
    return at.master or _settings_given(at).get("spark.master") or LOCAL_MASTER


def _settings_given(at: SparkPlace) -> dict[str, str]:
    """Returns the settings that the user has made. ``spark-submit`` has given those of the file to Java."""
    return {**(_settings_of_submit() if _is_submitted() else _defaults_of_installation()), **at.conf}


def _settings_of_submit() -> dict[str, str]:
    context: Any = SparkContext  # a private name: every public one starts Spark, too
    context._ensure_initialized()  # until this process is connected to Java, SparkConf() is empty
    return dict(SparkConf().getAll())


def _is_submitted() -> bool:
    return _GATEWAY in os.environ


def _started(at: SparkPlace, name: str, scratch: str) -> SparkSession:
    variables = {} if _is_submitted() else {"JAVA_HOME": str(java_home())}
    given, chosen = _settings_given(at), master_of(at)
    local = is_local(chosen)
    settings = effective_settings(given, scratch if local else None)
    settings |= {"spark.master": chosen, "spark.app.name": f"penstock {name}"}
    # PySpark itself asks the environment alone.
    python = settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable
    variables["PYSPARK_PYTHON"] = python
    if local:
        settings["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(_import_path())
    conf = SparkConf().setAll(list(settings.items()))
    with_log = _is_submitted() or "spark.log.level" in given
    try:
        with _environment(variables), own_interrupts(), nullcontext() if with_log else quiet_start(conf):
            return SparkSession.Builder().config(conf=conf).getOrCreate()
    except Exception as error:  # Java's errors, and PySpark's own about a Java that has ended
        raise StreamsError(f"Spark did not start at the master {chosen}: {_first_line(error)}") from error


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables while Spark starts, which reads them then. Programs that this process starts later do
    not get them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _beside(running: SparkSession, conf: Mapping[str, str]) -> SparkSession:
    """Returns another session on the Spark of ``running``. Settings that only a new Spark takes stay as they are."""
    effective_settings(dict(running.sparkContext.getConf().getAll()), None)  # refuses what would be wrong
    spark = running.newSession()
    for key, value in effective_settings(conf, None).items():
        if key.startswith("spark.sql.") and spark.conf.isModifiable(key):
            spark.conf.set(key, value)
    return spark


def _defaults_of_installation() -> dict[str, str]:
    """Returns the settings of ``spark-defaults.conf``, if there is one."""
    folder = os.environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if (home := os.environ.get("SPARK_HOME")) else "")
    file = Path(folder) / "spark-defaults.conf"
    return settings_of_lines(file.read_text().splitlines()) if folder and file.is_file() else {}


def _import_path() -> Sequence[str]:
    """Returns the paths on which workers find the user's modules, the current directory of this process included."""
    here = [str(Path.cwd())]
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    package = str(Path(__file__).resolve().parents[2])
    ours = [package] if (Path(package) / "penstock").is_dir() else []
    return list(dict.fromkeys(path for path in (*here, *ours, *given) if path))


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
