"""Rules for tests, without which ``make test`` could not share them out between its workers."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.shares import TURNS, WITH_RAY, WORKERS, share_of, turn_of

ROOT = Path(__file__).parents[2]


def test_a_file_stays_together_and_so_do_files_that_use_the_same_ray() -> None:
    assert share_of("tests/tasks/test_ttl.py::TestRows::test_one[a::b]") == "tests/tasks/test_ttl.py"
    assert share_of("tests/cluster/test_reset.py::test_one") == share_of("tests/security/test_application.py::test")


def test_long_shares_begin_first() -> None:
    short, long, with_ray = "tests/tasks/test_ttl.py", "tests/chaos/test_kill.py", "tests/cluster/test_end_to_end.py"
    assert sorted([short, long, with_ray], key=turn_of) == [with_ray, long, short]


def test_every_place_in_the_order_exists() -> None:
    assert [place for place in TURNS if not (ROOT / place).exists()] == []


def test_a_file_that_starts_ray_belongs_to_a_share_with_ray() -> None:
    starting = {file for file in (ROOT / "tests").rglob("test_*.py") if _starts_ray(file)}
    assert len(starting) > 5
    assert {file for file in starting if share_of(str(file.relative_to(ROOT))) not in WITH_RAY} == set()


def test_the_makefile_starts_these_workers() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert re.findall(r"--numprocesses=(\d+)", makefile) == [str(WORKERS)]


def test_a_test_has_the_same_name_in_all_workers(request: pytest.FixtureRequest) -> None:
    assert [item.nodeid for item in request.session.items if " at 0x" in item.nodeid] == []


def _starts_ray(file: Path) -> bool:
    """True if it calls ``ray.init``, or has a fixture that does, by name or by ``usefixtures``."""
    nodes = list(ast.walk(ast.parse(file.read_text())))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    asked = {node.arg for node in nodes if isinstance(node, ast.arg)}
    asked |= {ast.unparse(each).strip("'") for call in calls if _ends_in(call, "usefixtures") for each in call.args}
    return any(_ends_in(call, "ray.init") for call in calls) or not asked.isdisjoint({"ray_cluster", "word_count"})


def _ends_in(call: ast.Call, name: str) -> bool:
    return ast.unparse(call.func).endswith(name)
