"""The archive that executors unpack holds penstock and the user's modules, and nothing that is installed."""

from __future__ import annotations

import importlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from penstock.common.errors import StreamsError
from penstock.pipeline.spark import shipped_code
from penstock.pipeline.spark.executor_probe import Probe
from penstock.pipeline.spark.executors import PACKAGES
from penstock.pipeline.spark.shipped_code import shipped_roots, write_archive


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a user's, of which one module and one nested module have been imported."""
    files = ("users_one.py", "users_beside.py", "users_package/__init__.py", "users_package/inner/leaf.py",
             "users_package/data.json", "users_package/__pycache__/x.pyc", ".venv/lib/y.py", "notes.txt")  # fmt: skip
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("users_one", "users_package", "users_package.inner", "users_package.inner.leaf"):
        importlib.import_module(name)
        monkeypatch.setitem(sys.modules, name, sys.modules[name])
    return tmp_path


def test_packages_are_sent_whole_and_modules_with_their_neighbours(modules: Path) -> None:
    archive = modules / "code.zip"
    write_archive(archive, shipped_roots())
    names = set(zipfile.ZipFile(archive).namelist())
    theirs = {name for name in names if name.startswith(("users_one", "users_beside", "users_package", "notes", "."))}
    assert theirs == {
        "users_one.py", "users_beside.py", "users_package/__init__.py", "users_package/inner/leaf.py",
        "users_package/data.json",
    }  # fmt: skip
    assert {"penstock/__init__.py", "penstock/tasks/task.py", "penstock/common/config.py"} <= names
    assert not any("site-packages" in name or "__pycache__" in name for name in names)


def test_the_archive_is_all_that_workers_need_beside_the_packages_that_they_are_asked_for(
    modules: Path, tmp_path: Path
) -> None:
    archive, unpacked = tmp_path / "code.zip", tmp_path / "unpacked"
    write_archive(archive, shipped_roots())
    zipfile.ZipFile(archive).extractall(unpacked)
    needed = sorted({*PACKAGES, *_BROUGHT_BY_THEM})
    done = subprocess.run([sys.executable, "-c", _IMPORTING, str(unpacked), *needed], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


_BROUGHT_BY_THEM = ("numpy", "dateutil", "pytz", "six", "tzdata", "pydantic_core", "annotated_types",
                    "typing_inspection", "pyspark", "py4j", "speedict")  # fmt: skip
_IMPORTING = """
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder

unpacked, *needed = sys.argv[1:]

class Only(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        found = PathFinder.find_spec(name, path, target)
        if found is not None and "site-packages" in str(found.origin) and name.partition(".")[0] not in needed:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None

sys.meta_path.insert(0, Only())
sys.path.insert(0, unpacked)
import penstock
assert penstock.__file__.startswith(unpacked), penstock.__file__
import penstock.kafka.clients
import penstock.objects.storage
import penstock.pipeline.backfill.hand_over
import penstock.pipeline.task_hosts.cycle_host
import penstock.pipeline.task_hosts.task_host
import penstock.state.disk.rocksdb
import confluent_kafka
penstock.StreamsBuilder
"""


def test_a_program_that_is_too_large_is_refused_by_its_folder(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped_code, "_LIMIT_BYTES", 10)
    (modules / "users_package" / "data.json").write_text("12345678901")
    with pytest.raises(StreamsError, match=f"{modules}/users_package and what is sent before it"):
        write_archive(modules / "code.zip", {"users_package": modules / "users_package"})


def problems(probe: Probe) -> list[str]:
    return [what for _, what in probe.run([1])]


def test_an_executor_that_lacks_nothing_reports_nothing() -> None:
    assert problems(Probe("penstock", "penstock", {"json": "json"}, b"N.", [])) == [""]


def test_each_missing_package_is_named() -> None:
    missing = {"json": "json", "no_such_thing": "no-such-thing", "nor_this": "nor-this"}
    (found,) = problems(Probe("penstock", "penstock", missing, b"N.", []))
    assert found.startswith("has no package no-such-thing, nor-this: install it there")


def test_another_penstock_than_the_one_sent_is_named_by_its_folder() -> None:
    (found,) = problems(Probe("penstock", "sent-4711", {}, b"N.", []))
    assert found.startswith("imports penstock from /")


def test_missing_files_and_modules_of_the_program_are_named() -> None:
    found = problems(Probe("penstock", "penstock", {}, b"cno_such_module\nname\n.", ["/nowhere.p12"]))
    assert found[0] == "has no file /nowhere.p12"
    assert found[1].startswith("cannot load the program: ModuleNotFoundError: No module named 'no_such_module'")
