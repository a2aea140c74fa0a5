"""One Spark for all tests here; Ray only if an application continues live."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.spark.spark_session import spark_session
from tests.own_ray import own_or_running_ray


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    """Spark on two threads, in a Java that starts fast rather than runs fast."""
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patched:
            # Only while it starts: a broker that starts later would not, with this collector.
            patched.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
            session = stack.enter_context(spark_session("local[2]", "tests"))
        yield session


@pytest.fixture
def shared_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes ``backfill`` use the session there is, which saves each test the start of another."""

    @contextmanager
    def session(master: str, name: str, *, connector: bool) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr("penstock.pipeline.backfill.backfill.spark_session", session)


@pytest.fixture
def ray_cluster() -> Iterator[None]:
    """A Ray of this process; the one that other tests have started, if they have."""
    yield from own_or_running_ray()
