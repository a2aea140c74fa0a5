"""The allowed imports between the packages: the table of the design, as data."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.architecture.sources import OUTSIDE, PACKAGES, ROOT, imports_of, python_files

ENGINE = {"common", "state", "topology", "tasks"}

MAY_IMPORT: dict[str, set[str]] = {
    "common": set(),
    "state": {"common"},
    "topology": {"common", "state"},
    "tasks": {"common", "state", "topology"},
    "kafka": {"common"},
    "actors": ENGINE | {"kafka"},
    "cluster": ENGINE | {"kafka", "actors"},
    "api": {"common", "cluster"},
    "pipeline": ENGINE | {"kafka"},
    "testing": ENGINE | {"kafka", "actors", "cluster", "api"},
    "cli": set(PACKAGES),
}

ROOMS_OF_TOPOLOGY: dict[str, set[str]] = {
    "dsl": {"dsl", "logical", "physical"},
    "logical": {"logical", "physical"},
    "physical": {"physical"},
    "": set(),
}
"""The subpackages of ``topology/`` that each may import. "" is what users hand in (options, Processor API)."""

ROOMS_OF_STATE: dict[str, set[str]] = {
    "buffers": {"buffers"},
    "disk": {"disk"},
    "key_value": {"key_value", "with_headers"},
    "versioned": {"versioned", "windowed", "buffers"},
    "windowed": {"windowed", "with_headers"},
    "with_headers": {"with_headers"},
    "": set(),
}
"""The subpackages of ``state/`` that each may import. "" is the contract and what stores of any kind are made of. The
factories that name every kind are in ``DOOR_OF_STATE``."""
DOOR_OF_STATE = Path("state/stores.py")

CONFINED_TO: dict[str, tuple[str, ...]] = {
    "ray": ("actors/", "cluster/", "cli/", "testing/chaos/"),
    "confluent_kafka": ("kafka/",),
    "rocksdict": ("state/disk/rocksdb.py",),
    "sortedcontainers": ("state/ordered_keys.py",),
    "pyspark": ("pipeline/",),
    "fastapi": ("api/",),
}

PURE = ("state", "topology", "tasks")
"""No thread, no event loop, no socket: the machine that every host runs."""
IMPURE_MODULES = {"asyncio", "concurrent", "multiprocessing", "socket", "threading"}


def test_every_folder_of_the_package_stands_in_the_table() -> None:
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


@pytest.mark.parametrize(("folder", "rooms"), [("topology", ROOMS_OF_TOPOLOGY), ("state", ROOMS_OF_STATE)])
def test_every_room_stands_in_its_table(folder: str, rooms: dict[str, set[str]]) -> None:
    with_code = {file.parts[1] for file in python_files(folder) if file.parts[0] == folder and len(file.parts) > 2}
    assert with_code == rooms.keys() - {""}


@pytest.mark.parametrize("room", ROOMS_OF_TOPOLOGY)
def test_arrows_between_the_rooms_of_topology_point_one_way(room: str) -> None:
    assert against_the_arrows("topology", room, ROOMS_OF_TOPOLOGY) == []


@pytest.mark.parametrize("room", ROOMS_OF_STATE)
def test_arrows_between_the_rooms_of_state_point_one_way(room: str) -> None:
    assert against_the_arrows("state", room, ROOMS_OF_STATE, besides=DOOR_OF_STATE) == []


def test_the_factories_of_stores_know_their_kinds_and_not_where_rows_lie() -> None:
    imported = {found.module.split(".")[2] for found in imports_of(DOOR_OF_STATE) if "penstock.state." in found.module}
    assert imported & ROOMS_OF_STATE.keys() == {"key_value", "versioned", "windowed"}


def against_the_arrows(folder: str, room: str, rooms: dict[str, set[str]], besides: Path | None = None) -> list[str]:
    """Returns the imports of the subpackage ``room`` of ``folder`` from those that it may not know."""
    wrong, seen = [], 0
    for file in python_files(folder):
        if file.parts[0] != folder or (file.parts[1] if len(file.parts) > 2 else "") != room or file == besides:
            continue
        seen += 1
        for found in imports_of(file):
            parts = found.module.split(".")
            if parts[:2] == ["penstock", folder] and parts[2] in rooms.keys() - rooms[room]:
                wrong.append(str(found))
    assert seen
    return wrong


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
def test_what_every_host_runs_knows_no_thread_and_no_network(folder: str) -> None:
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
        ("def f():\n    from penstock.kafka import local_broker", ["penstock.kafka"]),
        ("from penstock import kafka, state", ["penstock.kafka", "penstock.state"]),
        ("from . import x", ["..x"]),
        ("from .x import y", [".x"]),
        ("importlib.import_module('pyspark.sql')", ["pyspark.sql"]),
        ("if TYPE_CHECKING:\n    import rocksdict", ["rocksdict"]),
    ],
)
def test_the_scanner_sees_every_way_to_import(text: str, modules: list[str]) -> None:
    assert [found.module for found in imports_of(Path("example.py"), text)] == modules
