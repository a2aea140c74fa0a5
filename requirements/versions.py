"""Plays the tests that depend on Ray, Kafka's client, RocksDB and Spark with other versions than the locked ones.

``oldest`` has the lowest versions that ``pyproject.toml`` allows, ``newest`` the highest that the package index has.
Run by ``make versions``.

Each end has an environment of its own in the user's cache folder, for the Python that runs this. It is brought up to
date each time: seconds, if uv has the packages.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESOLUTIONS = {"oldest": "lowest-direct", "newest": "highest"}
TOOLS = (
    "pytest", "pytest-xdist", "hypothesis", "httpx", "numpy", "pyyaml", "jsonschema", "openapi-spec-validator",
    "moto[server]", "duckdb", "pyiceberg[sql-sqlite]",
)  # fmt: skip
TESTS = (
    "tests/kafka/test_conformance.py",
    "tests/kafka/test_consumer_conformance.py",
    "tests/kafka/test_binding.py",
    "tests/kafka/test_librdkafka.py",
    "tests/state/test_rocksdb.py",
    "tests/state/test_task_stores.py",
    "tests/state/test_bulk_load.py",
    "tests/actors/test_on_kafka.py",
    "tests/cluster/test_end_to_end.py",
    "tests/cluster/test_http_end_to_end.py",
    "tests/cluster/test_program_with_code.py",
    "tests/cluster/test_stream_actor_handle.py",
    "tests/cluster/test_ray_clusters.py",
    "tests/pipeline",
)


def play(end: str) -> int:
    """Returns pytest's exit code."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    environment = cache / "penstock" / "versions" / f"{end}-{version}"
    python = environment / "bin" / "python"
    if not python.exists():
        _uv("venv", "--python", sys.executable, str(environment))
    install = ("pip", "install", "--python", str(python))
    # The tests' own tools come afterwards: they are the newest, and move none of these.
    _uv(*install, "--upgrade", "--resolution", RESOLUTIONS[end], "--editable", f"{ROOT}[spark,local,iceberg]")
    _uv(*install, *TOOLS)
    _uv("pip", "list", "--python", str(python))
    return subprocess.run([python, "-m", "pytest", "-q", "-m", "not long and not faults", *TESTS], cwd=ROOT).returncode


def _uv(*arguments: str) -> None:
    uv = ROOT / ".venv" / "bin" / "uv"
    subprocess.run([uv, *arguments], cwd=ROOT, check=True)


if __name__ == "__main__":
    ends = sys.argv[1:] or list(RESOLUTIONS)
    # Both are played even if the first one fails.
    sys.exit(max([play(end) for end in ends]))
