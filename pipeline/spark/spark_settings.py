"""Settings of Spark: the user's, and penstock's for what the user has not set. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from penstock.common.errors import ConfigError
from penstock.common.secrets import is_secret

_SECRETS = (
    r"(?i)secret|password|passphrase|token|credential|access[.]?key|jaas|private[.]?key|[.]pem|ssl[.].*[.](key|chain)"
)
_DEFAULTS = {
    # The traceback of a user function is the cause of a task's error: the simplified form leaves causes out.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    # A worker that dies of a signal leaves the Python line at which it was.
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    "spark.python.worker.faulthandler.enabled": "true",
    # Large values would make batches of 10,000 records that fit neither Java's nor Arrow's buffers.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
    # The large shuffles set their number of partitions themselves.
    "spark.sql.shuffle.partitions": "2",
    "spark.redaction.regex": _SECRETS,
    "spark.sql.redaction.options.regex": f"{_SECRETS}|url",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "FATAL",
}
_REQUIRED = {
    # A second attempt of a task that runs already would write its results to Kafka a second time.
    "spark.speculation": "false",
}
_LOOPBACK = "127.0.0.1"
_LINE = re.compile(r"\s*([^\s=:#!][^\s=:]*)\s*[\s=:]\s*(.*?)\s*")


def is_local(master: str) -> bool:
    """Returns True if tasks run in this process' own Java, on this machine's files."""
    return master == "local" or master.startswith("local[")


def require_one_machine(master: str) -> None:
    """Raise ConfigError if Spark's executors at ``master`` may be on other machines, which cannot reach a local folder.
    The executors of a ``local-cluster`` are processes on this machine."""
    if not master.startswith("local"):
        raise ConfigError(
            f"--work: Spark runs on {master}, and its executors need a place that all of them reach for the results of "
            "the stages: give the URL of object storage, or a folder that is mounted on each machine"
        )


def effective_settings(given: Mapping[str, str], local_folder: str | None) -> dict[str, str]:
    """Returns all settings of a session: the user's, and penstock's own for the others.

    ``local_folder`` is given if tasks run on this machine alone: Spark then works in it, and listens on loopback.
    Raises ConfigError for a setting that would make results wrong.
    """
    for key, value in _REQUIRED.items():
        if given.get(key, value).lower() != value:
            raise ConfigError(
                f"Spark's setting {key}={given[key]}: penstock needs {value}, because a second attempt of a task that "
                "still runs would write its results a second time. Remove the setting (--conf, spark-defaults.conf)"
            )
    found = {**_DEFAULTS, **given, **_REQUIRED}
    if local_folder is not None:
        here = {
            "spark.driver.bindAddress": _LOOPBACK,
            "spark.driver.host": _LOOPBACK,
            # Python does the work, and Java's second compiler would take more CPU from it than it gains.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            "spark.local.dir": local_folder,
            "spark.sql.warehouse.dir": f"{local_folder}/warehouse",
        }
        found = here | found
    return {key: value for key, value in found.items() if value}


def settings_of_lines(lines: Sequence[str]) -> dict[str, str]:
    """Returns the settings of a ``spark-defaults.conf``: a key and a value a line, with a blank, ``=`` or ``:`` between
    them."""
    found = (_LINE.fullmatch(line) for line in lines)
    return {match[1]: match[2] for match in found if match is not None and match[1].startswith("spark.")}


def settings_of_options(options: Sequence[str]) -> dict[str, str]:
    """Returns the settings of ``--conf KEY=VALUE``. Raises ConfigError for one that has another form."""
    found: dict[str, str] = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or not key.startswith("spark."):
            shown = f"{key}=…" if is_secret(key) else option
            raise ConfigError(f"--conf {shown}: a setting of Spark is KEY=VALUE, such as spark.executor.memory=4g")
        found[key] = value
    return found
