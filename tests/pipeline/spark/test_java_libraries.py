"""The jars of Spark's jobs fit the PySpark that is installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.common.errors import LocalBrokerError, StreamsError
from penstock.pipeline.spark import java_libraries
from penstock.pipeline.spark.java_libraries import connector_jars, iceberg_jars


class FakeRepository:
    """Stands in for the repository and the cache: ``has`` and ``cached`` are versions of the connector."""

    def __init__(self) -> None:
        self.has: set[str] = set()
        self.cached: set[str] = set()
        self.asked: list[str] = []

    def fetched(self, coordinates: Sequence[str], name: str) -> list[Path] | None:
        return self._jars(coordinates) if self._release(coordinates) in self.cached else None

    def resolve(self, coordinates: Sequence[str], name: str) -> list[Path]:
        self.asked.append(self._release(coordinates))
        if self.asked[-1] not in self.has:
            raise LocalBrokerError("not found")
        return self._jars(coordinates)

    def _release(self, coordinates: Sequence[str]) -> str:
        return coordinates[0].rpartition(":")[2]

    def _jars(self, coordinates: Sequence[str]) -> list[Path]:
        artifact = coordinates[0].split(":")[1]
        return [Path(f"/jars/{artifact}-{self._release(coordinates)}.jar"), Path("/jars/slf4j-api-2.0.jar")]


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> FakeRepository:
    fake = FakeRepository()
    monkeypatch.setattr(java_libraries, "fetched", fake.fetched)
    monkeypatch.setattr(java_libraries, "resolve", fake.resolve)
    return fake


def with_pyspark(monkeypatch: pytest.MonkeyPatch, installed: str) -> None:
    monkeypatch.setattr(java_libraries, "version", lambda name: installed)


def test_the_connector_has_the_version_of_pyspark(repository: FakeRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.has = {"4.2.0", "4.2.7"}
    with_pyspark(monkeypatch, "4.2.7")
    assert connector_jars() == [Path("/jars/spark-sql-kafka-0-10_2.13-4.2.7.jar")]  # Spark has slf4j itself


def test_a_tested_one_is_taken_if_the_repository_lacks_it(
    repository: FakeRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.has = {"4.2.0"}
    with_pyspark(monkeypatch, "4.2.7")
    assert connector_jars() == [Path("/jars/spark-sql-kafka-0-10_2.13-4.2.0.jar")]
    assert repository.asked == ["4.2.7", "4.2.0"]


def test_one_in_the_cache_is_taken_before_the_repository_is_asked(
    repository: FakeRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.cached = {"4.2.0"}
    with_pyspark(monkeypatch, "4.2.7")
    assert connector_jars() == [Path("/jars/spark-sql-kafka-0-10_2.13-4.2.0.jar")]
    assert repository.asked == []


def test_without_a_repository_the_error_is_that_of_the_fetch(
    repository: FakeRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_pyspark(monkeypatch, "4.5.0")
    with pytest.raises(LocalBrokerError, match="not found"):
        connector_jars()
    assert repository.asked == ["4.5.0"]


def test_the_runtime_of_iceberg_is_the_one_for_the_minor_version(
    repository: FakeRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.has = {"1.12.0"}
    with_pyspark(monkeypatch, "4.1.3")
    assert iceberg_jars()[0] == Path("/jars/iceberg-spark-runtime-4.1_2.13-1.12.0.jar")


def test_a_spark_for_which_iceberg_has_no_runtime_is_refused_by_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    with_pyspark(monkeypatch, "4.3.0")
    with pytest.raises(StreamsError, match=r"no runtime for Spark 4\.3, only for 4\.0 and 4\.1"):
        iceberg_jars()
