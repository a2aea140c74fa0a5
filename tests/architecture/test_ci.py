"""A public forge runs what a developer runs, on the oldest and the newest Python."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.architecture.sources import ROOT

WORKFLOWS = ROOT / ".github" / "workflows"
JOB: dict[str, Any] = yaml.safe_load((WORKFLOWS / "ci.yml").read_text())["jobs"]["test"]


def test_its_one_command_is_all_of_ci() -> None:
    assert [step["run"] for step in JOB["steps"] if "run" in step] == [".ci/run"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert "make check test-change" in (ROOT / ".ci" / "run").read_text()


def test_it_runs_on_the_oldest_and_the_newest_python_that_the_project_names() -> None:
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(named))
    assert JOB["strategy"]["matrix"]["python"] == [versions[0], versions[-1]]
    (setup,) = [step for step in JOB["steps"] if step.get("uses", "").startswith("actions/setup-python@")]
    assert setup["with"]["python-version"] == "${{ matrix.python }}"


@pytest.mark.parametrize("workflow", sorted(WORKFLOWS.glob("*.yml")), ids=lambda file: file.name)
def test_a_workflow_names_no_host(workflow: Path) -> None:
    text = workflow.read_text()
    assert "://" not in text
    assert not re.search(r"\b[\w-]+\.(?:com|org|net|io|dev)\b", text)


def test_wheels_are_built_for_every_python_on_both_systems_and_architectures() -> None:
    job = yaml.safe_load((WORKFLOWS / "wheels.yml").read_text())["jobs"]["wheels"]
    assert job["strategy"]["matrix"]["machine"] == ["ubuntu-24.04", "ubuntu-24.04-arm", "macos-15", "macos-15-intel"]
    assert any("-m cibuildwheel" in step.get("run", "") for step in job["steps"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    versions = re.findall(r"Python :: 3\.(\d+)", "\n".join(project["project"]["classifiers"]))
    settings = project["tool"]["cibuildwheel"]
    assert settings["build"] == " ".join(f"cp3{version}-*" for version in versions)
    program = settings["test-command"].removeprefix("python {project}/")
    assert (ROOT / program).is_file()
