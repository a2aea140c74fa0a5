"""``penstock new``: the projects that it makes are complete, and clean by their own settings."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.cli.new import Template, package_of, project_files
from penstock.common.errors import ConfigError
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]
FILES = {
    ".gitignore", "README.md", "pyproject.toml", "tests/__init__.py", "tests/test_program.py",
    "my_shop/__init__.py", "my_shop/program.py",
}  # fmt: skip


def made(folder: Path, template: Template) -> Path:
    """Makes a project named my-shop below ``folder``."""
    done = CliRunner().invoke(app, ["new", str(folder / "my-shop"), "--template", template.value])
    assert done.exit_code == 0, done.output
    return folder / "my-shop"


def in_project(project: Path, *command: str) -> str:
    """Runs a module of Python's in the project; returns its output. It must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=project, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=PATIENCE_S,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("template", list(Template))
def test_the_tests_of_a_project_pass_at_once_and_it_is_clean(template: Template, tmp_path: Path) -> None:
    project = made(tmp_path, template)
    assert {str(path.relative_to(project)) for path in project.rglob("*") if path.is_file()} == FILES
    assert "2 passed" in in_project(project, "pytest", "-q", "-p", "no:cacheprovider")
    in_project(project, "ruff", "check", ".")
    in_project(project, "ruff", "format", "--check", ".")
    assert "{{" not in "".join(project_files("my-shop", template).values())


@pytest.mark.submission
def test_projects_are_strictly_typed(tmp_path: Path) -> None:
    for template in Template:
        project = made(tmp_path / template.value, template)
        in_project(project, "mypy", "--cache-dir", str(tmp_path / "cache"))


def test_an_empty_folder_is_used_and_any_other_is_refused(tmp_path: Path) -> None:
    (tmp_path / "my-shop").mkdir()
    made(tmp_path, Template.WORD_COUNT)
    kept = (tmp_path / "my-shop" / "README.md").read_text()
    error = CliRunner().invoke(app, ["new", str(tmp_path / "my-shop"), "--template", "windows"]).exception
    assert isinstance(error, ConfigError)
    assert "is a folder that is not empty: choose another name; nothing was written" in str(error)
    assert (tmp_path / "my-shop" / "README.md").read_text() == kept
    (tmp_path / "afile").write_text("")
    error = CliRunner().invoke(app, ["new", str(tmp_path / "afile")]).exception
    assert "is a file" in str(error)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("1shop", "is not a name for a project"),
        ("my shop", "is not a name for a project"),
        ("-shop", "is not a name for a project"),
        ("x" * 101, "is not a name for a project"),
        ("class", "has a module 'class' already"),
        ("json", "has a module 'json' already"),
        ("penstock", "has a module 'penstock' already"),
        ("Tests", "has a module 'tests' already"),
        ("numpy", "a module 'numpy' is installed"),
    ],
)
def test_a_name_that_python_could_not_import_is_refused(name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(why)):
        package_of(name)


def test_a_folder_that_cannot_be_written_is_an_error_of_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    error = CliRunner().invoke(app, ["new", str(tmp_path / "file" / "my-shop")]).exception
    assert isinstance(error, ConfigError)
    assert "Not a directory" in str(error)


def test_names_become_packages() -> None:
    assert [package_of(name) for name in ("my-shop", "My.Shop_2")] == ["my_shop", "my_shop_2"]


def test_json_lists_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["new", "my-shop", "--json"])
    assert json.loads(done.stdout) == {"folder": "my-shop", "files": sorted(FILES)}
