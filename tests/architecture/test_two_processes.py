"""The conditions under which ``make test`` can share the tests out between two processes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.two_processes import DISTURBED, WITH_RAY, piece_of, turn_of

ROOT = Path(__file__).parents[2]


def test_the_tests_of_a_file_stay_together_and_those_with_ray_do_all() -> None:
    assert piece_of("tests/tasks/test_ttl.py::TestRows::test_one[a::b]") == "tests/tasks/test_ttl.py"
    assert piece_of("tests/cluster/test_stop.py::test_one") == piece_of("tests/security/test_two.py::test") == WITH_RAY
    assert piece_of("tests/chaos/test_kill.py::test_two") == piece_of("tests/elastic/test_elastic.py::test_one")


def test_those_that_another_ray_disturbs_come_long_after_those_that_start_one() -> None:
    files = ["tests/tasks/test_ttl.py", *DISTURBED, "tests/chaos/test_kill.py", "tests/cluster/test_stop.py"]
    assert sorted(files, key=turn_of) == [
        "tests/cluster/test_stop.py",
        "tests/chaos/test_kill.py",
        *DISTURBED,
        files[0],
    ]
    assert all((ROOT / file).is_file() for file in DISTURBED)


def test_a_file_that_starts_ray_belongs_to_those_with_ray() -> None:
    starting = {file for file in (ROOT / "tests").rglob("test_*.py") if _starts_ray(file)}
    assert len(starting) > 5
    assert {file for file in starting if piece_of(str(file.relative_to(ROOT))) != WITH_RAY} == set()


def test_a_test_has_the_same_name_in_both_processes(request: pytest.FixtureRequest) -> None:
    assert [item.nodeid for item in request.session.items if " at 0x" in item.nodeid] == []


def _starts_ray(file: Path) -> bool:
    """Returns True if ``file`` calls ``ray.init``, or has a fixture that does, by name or by ``usefixtures``."""
    nodes = list(ast.walk(ast.parse(file.read_text())))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    asked = {node.arg for node in nodes if isinstance(node, ast.arg)}
    asked |= {ast.unparse(each).strip("'") for call in calls if _ends_in(call, "usefixtures") for each in call.args}
    return any(_ends_in(call, "ray.init") for call in calls) or not asked.isdisjoint({"ray_cluster", "word_count"})


def _ends_in(call: ast.Call, name: str) -> bool:
    return ast.unparse(call.func).endswith(name)
