"""The allowed imports between the packages: the table of the design, as data."""

from __future__ import annotations

import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.architecture.sources import OUTSIDE, PACKAGES, ROOT, imports_of, python_files

pytestmark = pytest.mark.xdist_group("arrows")  # each process that runs them parses all files

ENGINE = {"common", "state", "topology", "tasks"}

MAY_IMPORT: dict[str, set[str]] = {
    "common": set(),
    "registry": {"common"},
    "objects": {"common"},
    "state": {"common"},
    "checkpoints": {"common", "objects", "state"},
    "topology": {"common", "state"},
    "tasks": {"common", "state", "topology"},
    "kafka": {"common"},
    "actors": ENGINE | {"objects", "checkpoints", "kafka"},
    "cluster": ENGINE | {"objects", "checkpoints", "kafka", "actors"},
    "api": {"common", "cluster"},
    "pipeline": ENGINE | {"objects", "checkpoints", "kafka"},
    "testing": ENGINE | {"objects", "checkpoints", "kafka", "actors", "cluster", "api"},
    "cli": set(PACKAGES),
}

SUBPACKAGES: dict[str, dict[str, set[str]]] = {
    "topology": {
        "dsl": {"logical", "physical", "options", "processor_api"},
        "logical": {"physical", "options", "processor_api"},
        "physical": {"options", "processor_api", "picture"},
        "options": {"processor_api"},
        "processor_api": set(),
        "picture": set(),
    },
    "state": {
        "buffers": {"write_buffer", "rows"},
        "disk": {"write_buffer"},
        "key_value": {"with_headers", "write_buffer", "rows"},
        "versioned": {"windowed", "buffers", "write_buffer", "rows"},
        "windowed": {"with_headers", "write_buffer", "rows"},
        "with_headers": {"write_buffer", "rows"},
        "write_buffer": {"rows"},
        "rows": set(),
    },
    "kafka": {"internal_topics": set(), "local_broker": set()},
    "actors": {
        "process": {"loop", "commits", "task_host"},
        "loop": {"standbys", "restore", "checkpoints", "commits", "task_host", "calls"},
        "standbys": {"restore", "checkpoints", "commits", "task_host"},
        "restore": {"checkpoints", "task_host"},
        "checkpoints": {"task_host"},
        "commits": {"task_host"},
        "task_host": {"calls"},
        "calls": set(),
    },
    "cluster": {
        "client": {"coordinator_shell", "coordinator", "scaling", "programs", "queries", "ray_cluster"},
        "coordinator_shell": {
            "coordinator",
            "placement",
            "scaling",
            "programs",
            "watchers",
            "history",
            "queries",
            "topic_reading",
            "ray_cluster",
        },
        "coordinator": {"placement", "scaling", "programs"},
        "scaling": {"placement", "programs", "ray_cluster"},
        "placement": set(),
        "programs": set(),
        "watchers": set(),
        "history": set(),
        "queries": {"dead_letters", "topic_reading", "ray_cluster"},
        "dead_letters": {"topic_reading"},
        "topic_reading": set(),
        "ray_cluster": set(),
    },
    "pipeline": {
        "archive": {"reading", "spark"},
        "audit": {"backfill", "task_hosts", "reading", "spark"},
        "backfill": {"archive", "task_hosts", "reading", "spark"},
        "ingest": {"reading", "spark"},
        "task_hosts": set(),
        "reading": set(),
        "spark": set(),
    },
}
"""The other subpackages that each may import. The modules beside them are the contracts, which all may import and which
import none of them. The factories of stores name every kind: they are in ``DOOR_OF_STATE``."""
DOOR_OF_STATE = Path("state/stores.py")

CONFINED_TO: dict[str, tuple[str, ...]] = {
    "ray": ("actors/", "cluster/", "cli/", "testing/chaos/"),
    "confluent_kafka": ("kafka/", "registry/confluent.py"),
    "fastavro": ("registry/avro",),
    "google": ("registry/protobuf",),
    "jsonschema": ("registry/json",),
    "rocksdict": ("state/disk/rocksdb.py", "state/disk/rocksdb_options.py"),
    "sortedcontainers": ("state/write_buffer/ordered_keys.py",),
    "pyspark": ("pipeline/",),
    "pyiceberg": ("pipeline/",),
    "obstore": ("objects/storage.py",),
    "fastapi": ("api/",),
}

PURE = ("state", "topology", "tasks")
"""No thread, no event loop, no socket: the machine that every host runs."""
IMPURE_MODULES = {"asyncio", "concurrent", "multiprocessing", "socket", "threading"}


def test_every_folder_of_the_package_is_in_the_table() -> None:
    assert set(MAY_IMPORT) == set(PACKAGES)
    with_code = {folder.name for folder in ROOT.iterdir() if (folder / "__init__.py").is_file()}
    assert with_code <= {*PACKAGES, *OUTSIDE, "penstock"}


@pytest.mark.parametrize("folder", PACKAGES)
def test_arrows_point_one_way(folder: str) -> None:
    allowed = MAY_IMPORT[folder] | {folder}
    wrong = []
    for file in python_files(folder):
        if file.parts[0] != folder:
            continue
        for found in imports_of(file):
            parts = found.module.split(".")
            if parts[0] == "penstock" and parts[1:2] and parts[1] in PACKAGES and parts[1] not in allowed:
                wrong.append(str(found))
            elif parts == ["penstock"] and folder != "cli":
                # The public names import everything, so that import would turn the arrows round.
                wrong.append(str(found))
    assert wrong == []


@pytest.mark.parametrize("folder", SUBPACKAGES)
def test_every_subpackage_is_in_its_table_and_the_arrows_make_no_circle(folder: str) -> None:
    with_code = {file.parts[1] for file in python_files(folder) if file.parts[0] == folder and len(file.parts) > 2}
    assert with_code == SUBPACKAGES[folder].keys()
    assert set(TopologicalSorter(SUBPACKAGES[folder]).static_order()) == with_code


@pytest.mark.parametrize(
    ("folder", "subpackage"), [(folder, name) for folder, table in SUBPACKAGES.items() for name in ("", *table)]
)
def test_arrows_between_subpackages_point_one_way(folder: str, subpackage: str) -> None:
    table = SUBPACKAGES[folder]
    others = table.keys() - {subpackage} - table.get(subpackage, set())
    wrong, seen = [], 0
    for file in python_files(folder):
        if file.parts[0] == folder and subpackage_of(file) == subpackage and file != DOOR_OF_STATE:
            seen += 1
            parts_of = {str(found): found.module.split(".") for found in imports_of(file)}
            wrong += [it for it, parts in parts_of.items() if parts[:2] == ["penstock", folder] and parts[2] in others]
    assert wrong == []
    assert seen


def subpackage_of(file: Path) -> str:
    """Returns the name of the subpackage of a folder that the file is in; empty if it is in none."""
    return file.parts[1] if len(file.parts) > 2 else ""


def test_the_factories_of_stores_know_their_kinds_and_not_where_rows_lie() -> None:
    imported = {found.module.split(".")[2] for found in imports_of(DOOR_OF_STATE) if "penstock.state." in found.module}
    assert imported & SUBPACKAGES["state"].keys() == {"key_value", "versioned", "windowed"}


@pytest.mark.parametrize("subpackage", ["coordinator", "placement", "history"])
def test_the_decisions_of_the_coordinator_reach_no_ray_no_thread_and_no_network(subpackage: str) -> None:
    begin = {file for file in python_files("cluster") if file.parts[:2] == ("cluster", subpackage)}
    assert begin
    assert impure_imports(reached_from(begin)) == set()


def test_the_look_for_what_is_impure_follows_every_import() -> None:
    reached = reached_from({Path("cluster/coordinator_shell/coordinator_actor.py")})
    assert {Path("cluster/coordinator/fences.py"), Path("actors/process/ray_kv.py")} <= reached
    assert {"ray", "asyncio", "threading"} <= {each.split()[-1] for each in impure_imports(reached)}


def impure_imports(files: set[Path]) -> set[str]:
    """Returns the imports of these files that the coordinator's decisions must not need. The log has locks."""
    impure, files = (
        {*IMPURE_MODULES, "ray", "confluent_kafka"},
        files - {Path("common/log.py"), Path("common/kept_lines.py")},
    )
    return {str(found) for file in files for found in imports_of(file) if found.module.split(".")[0] in impure}


def reached_from(files: set[Path]) -> set[Path]:
    """Returns these files, and all files of the package that they import, and so on."""
    reached, left = set(files), list(files)
    while left:
        for found in imports_of(left.pop()):
            file = Path(f"{found.module.removeprefix('penstock.').replace('.', '/')}.py")
            if found.module.startswith("penstock.") and file not in reached and (ROOT / file).is_file():
                reached.add(file)
                left.append(file)
    return reached


def test_of_what_tests_topologies_only_the_chaos_harness_knows_the_application_as_users_have_it() -> None:
    wrong = [
        str(found)
        for file in python_files("testing")
        if file.parts[0] == "testing" and file.parts[1] != "chaos"
        for found in imports_of(file)
        if found.module.startswith("penstock.api")
    ]
    assert wrong == []


@pytest.mark.parametrize("library", CONFINED_TO)
def test_third_party_clients_stay_where_they_belong(library: str) -> None:
    wrong = [
        str(found)
        for file in python_files(*PACKAGES)
        for found in imports_of(file)
        if found.module.split(".")[0] == library and not str(file).startswith(CONFINED_TO[library])
    ]
    assert wrong == []


@pytest.mark.parametrize("folder", PURE)
def test_code_that_every_host_runs_imports_no_thread_and_no_network(folder: str) -> None:
    wrong = [
        str(found)
        for file in python_files(folder)
        if file.parts[0] == folder
        for found in imports_of(file)
        if found.module.split(".")[0] in IMPURE_MODULES
    ]
    assert wrong == []


def test_nothing_is_imported_by_a_bare_or_relative_name() -> None:
    wrong = [
        str(found)
        for file in python_files(*PACKAGES, *OUTSIDE)
        for found in imports_of(file)
        if found.module.split(".")[0] in {*PACKAGES, ""}
    ]
    assert wrong == []


def test_no_folder_is_named_like_a_module_of_the_standard_library() -> None:
    assert not set(PACKAGES) & sys.stdlib_module_names


@pytest.mark.parametrize(
    ("text", "modules"),
    [
        ("import ray.util as u", ["ray.util"]),
        ("def f():\n    from penstock.kafka import local_broker", ["penstock.kafka.local_broker"]),
        ("from penstock import kafka, state", ["penstock.kafka", "penstock.state"]),
        ("from . import x", ["..x"]),
        ("from .x import y", [".x"]),
        ("importlib.import_module('pyspark.sql')", ["pyspark.sql"]),
        ("if TYPE_CHECKING:\n    import rocksdict", ["rocksdict"]),
    ],
)
def test_the_scanner_sees_every_way_to_import(text: str, modules: list[str]) -> None:
    assert [found.module for found in imports_of(Path("example.py"), text)] == modules
