"""The Java libraries of Spark's jobs, in the versions that fit the installed PySpark."""

from __future__ import annotations

import importlib.util
from importlib.metadata import version
from pathlib import Path

from penstock.common.errors import LocalBrokerError, StreamsError
from penstock.kafka.local_broker.jars import fetched, resolve

TESTED_CONNECTORS = {"4.0": "4.0.0", "4.1": "4.1.1", "4.2": "4.2.0", "4.3": "4.2.0"}
"""By minor version of PySpark, the Kafka connector that is used if the repository lacks the one of the installed
PySpark, or a piece of it: 4.0.1 to 4.0.4, 4.1.0, 4.1.2 and 4.1.3 were published without their token provider."""
ICEBERG_RUNTIMES = {"4.0": "1.11.0", "4.1": "1.12.0"}
"""By minor version of PySpark, the newest release of Iceberg that has a runtime for it."""


def connector_jars() -> list[Path]:
    """Returns the jars of Spark's Kafka connector, without those that Spark has already. Raises LocalBrokerError."""
    installed = version("pyspark")
    candidates = list(dict.fromkeys((installed, TESTED_CONNECTORS.get(_minor(installed), installed))))
    # One that is there already comes first: a search for jars that nobody has takes half a minute.
    for candidate in candidates:
        if (jars := fetched([_connector(candidate)], _CONNECTOR_SET)) is not None:
            return _missing_in_spark(jars)
    for candidate in candidates[:-1]:
        try:
            return _missing_in_spark(resolve([_connector(candidate)], _CONNECTOR_SET))
        except LocalBrokerError:
            continue  # if there is no network, the next one fails, too
    return _missing_in_spark(resolve([_connector(candidates[-1])], _CONNECTOR_SET))


def iceberg_jars() -> list[Path]:
    """Returns the jar of Iceberg's runtime. Raises LocalBrokerError, and StreamsError if there is none for this
    PySpark."""
    minor = _minor(version("pyspark"))
    if (release := ICEBERG_RUNTIMES.get(minor)) is None:
        raise StreamsError(
            f"Iceberg has no runtime for Spark {minor}, only for {' and '.join(ICEBERG_RUNTIMES)}: "
            "install another PySpark, such as pip install 'pyspark~=4.1.1'"
        )
    return resolve([f"org.apache.iceberg:iceberg-spark-runtime-{minor}_2.13:{release}"], "iceberg")


_CONNECTOR_SET = "spark-kafka"


def _connector(release: str) -> str:
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{release}"


def _minor(installed: str) -> str:
    return ".".join(installed.split(".")[:2])


def _missing_in_spark(jars: list[Path]) -> list[Path]:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    own = {_artifact(jar) for jar in (Path(spec.origin).parent / "jars").glob("*.jar")}
    return [jar for jar in jars if _artifact(jar) not in own]


def _artifact(jar: Path) -> str:
    return jar.stem.rpartition("-")[0]
