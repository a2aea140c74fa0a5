"""A public forge runs what a developer runs, on the oldest and the newest Python."""

from __future__ import annotations

import os
import re
import tomllib
from typing import Any

import yaml

from tests.architecture.sources import ROOT

TEXT = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
JOB: dict[str, Any] = yaml.safe_load(TEXT)["jobs"]["test"]


def test_its_one_command_is_all_of_ci() -> None:
    assert [step["run"] for step in JOB["steps"] if "run" in step] == [".ci/run"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert "make check test" in (ROOT / ".ci" / "run").read_text()


def test_it_runs_on_the_oldest_and_the_newest_python_that_the_project_names() -> None:
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(named))
    assert JOB["strategy"]["matrix"]["python"] == [versions[0], versions[-1]]
    (setup,) = [step for step in JOB["steps"] if step.get("uses", "").startswith("actions/setup-python@")]
    assert setup["with"]["python-version"] == "${{ matrix.python }}"


def test_it_names_no_host() -> None:
    assert "://" not in TEXT
    assert not re.search(r"\b[\w-]+\.(?:com|org|net|io|dev)\b", TEXT)
