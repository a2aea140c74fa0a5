"""``import penstock as ps`` gives exactly the names that are listed, each explained."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from typing import get_origin

import pytest

import penstock as ps
from penstock.common import errors
from tests.architecture.public_surface import LISTED, surface
from tests.architecture.sources import PACKAGES, ROOT
from tests.waiting import PATIENCE_S


def test_the_list_is_in_order_and_names_each_once() -> None:
    assert sorted(set(ps.__all__)) == sorted(ps.__all__)


@pytest.mark.parametrize("name", ps.__all__)
def test_every_public_name_is_there_and_explained(name: str) -> None:
    found = getattr(ps, name)
    if get_origin(found) is not None:
        return  # an alias of a type has a docstring for readers alone, below it
    assert (found.__doc__ or "").strip(), f"{name} has no docstring"


def test_dir_shows_every_public_name_also_what_is_imported_later() -> None:
    program = "import penstock as ps; print(*sorted(dir(ps)))"
    assert python(program).split() == sorted(ps.__all__)


def test_every_error_is_public() -> None:
    raised = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert raised <= set(ps.__all__)


def test_the_tree_of_errors_lists_each_of_them() -> None:
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    text = "".join(file.read_text() for file in files)
    defined = re.findall(r"^class (\w+)\(\w+Error\)", text, re.MULTILINE)
    assert sorted(re.findall(r"── (\w+)", errors.__doc__ or "")) == sorted(defined)


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert ps.__version__ == project["version"]


def test_the_public_names_are_those_that_are_listed() -> None:
    assert surface() == LISTED.read_text(), "on purpose? python -m tests.architecture.public_surface"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'KStrem'"):
        _ = ps.KStrem  # type: ignore[attr-defined]


def test_a_topology_needs_no_ray() -> None:
    """A Spark executor, and a test of a topology, import neither Ray nor a Kafka client."""
    program = (
        "import sys, penstock as ps; ps.StreamsBuilder(); ps.TopologyTestDriver; ps.ApplicationState;"
        "print(sorted({'ray', 'confluent_kafka', 'pyspark', 'fastapi'} & sys.modules.keys()))"
    )
    assert python(program) == "[]\n"


def python(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout
