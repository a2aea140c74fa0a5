"""The conditions under which ``make test`` can share the tests out between processes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.groups import DISTURBED, RAYS_OF_THEIR_OWN, WITH_BROKER, WITH_RAY, group_of, turn_of

ROOT = Path(__file__).parents[2]
STARTS_RAY = {"tests/own_ray.py", "tests/live/__main__.py"}
"""Files whose ``ray.init`` is for the fixture ``ray_cluster``, or for no test at all."""


def test_the_tests_with_ray_stay_together_as_do_those_of_programs_with_a_ray_of_their_own() -> None:
    assert group_of("tests/cluster/test_stop.py::test_one", ["broker", "ray_cluster"]) == WITH_RAY
    assert group_of("tests/chaos/test_kill.py::test_two", []) == RAYS_OF_THEIR_OWN
    assert group_of("tests/page/test_browser.py::test_three", []) == "page"
    assert group_of("tests/tasks/test_ttl.py::TestRows::test_one[a::b]", ["tmp_path"]) is None


def test_tests_that_wait_for_a_broker_share_one_and_leave_the_other_processes_to_those_that_do_not() -> None:
    assert group_of("tests/cli/test_topic.py::test_one", ["broker"]) == WITH_BROKER
    assert group_of("tests/kafka/test_conformance.py::test_two", ["rig"]) == WITH_BROKER
    assert group_of("tests/kafka/test_tls.py::test_three", ["secured"]) == "secured broker"


def test_those_that_another_ray_disturbs_come_long_after_those_that_start_one() -> None:
    groups = {"tests/tasks/test_ttl.py": None, DISTURBED: WITH_RAY, "tests/chaos/x.py": RAYS_OF_THEIR_OWN, "": WITH_RAY}
    assert sorted(groups, key=lambda file: turn_of(file, groups[file])) == [
        "",
        "tests/chaos/x.py",
        DISTURBED,
        "tests/tasks/test_ttl.py",
    ]
    assert (ROOT / DISTURBED).is_file()


def test_a_file_that_starts_ray_in_the_process_of_the_test_does_so_by_the_fixture() -> None:
    files = {file for file in (ROOT / "tests").rglob("*.py") if _calls(file, "ray.init")}
    others = {str(file.relative_to(ROOT)) for file in files} - STARTS_RAY
    assert {file for file in others if group_of(file, []) is None} <= {"tests/faults/driver.py"}, "a program of its own"


def test_a_file_whose_tests_share_a_fixture_is_a_group() -> None:
    sharing = {
        file for file in (ROOT / "tests").rglob("test_*.py") if '@pytest.fixture(scope="module")' in file.read_text()
    }
    alone = {file.relative_to(ROOT) for file in sharing if "xdist_group(" not in file.read_text()}
    assert len(sharing) > 5
    assert {str(file) for file in alone if group_of(str(file), _arguments(ROOT / file)) is None} == set()


def test_a_test_has_the_same_name_in_all_processes(request: pytest.FixtureRequest) -> None:
    assert [item.nodeid for item in request.session.items if " at 0x" in item.nodeid] == []


def _calls(file: Path, name: str) -> bool:
    text = file.read_text()
    if name not in text:
        return False  # to parse all files takes seconds
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return any(ast.unparse(call.func) == name for call in calls)


def _arguments(file: Path) -> set[str]:
    return {node.arg for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.arg)}
