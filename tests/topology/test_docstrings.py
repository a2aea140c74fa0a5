"""Every example in a docstring runs unchanged in a user's program, by the public names alone."""

from __future__ import annotations

import doctest
import pkgutil
import re
from importlib import import_module

import pytest

import penstock.common
import penstock.state
import penstock.testing
import penstock.topology

MODULES = [
    module.name
    for package in (penstock.common, penstock.state, penstock.testing, penstock.topology)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not module.name.startswith("penstock.testing.chaos")
]
_INNER = re.compile(r"^(from|import) penstock\.", re.MULTILINE)


def examples(module: str) -> list[doctest.DocTest]:
    """With no name of the module: a user has none of them."""
    return [test for test in doctest.DocTestFinder().find(import_module(module), globs={}) if test.examples]


def test_the_modules_of_every_folder_are_looked_at() -> None:
    wanted = {
        "penstock.topology.options.options",
        "penstock.topology.dsl.kgrouped_stream",
        "penstock.common.windowed_serdes",
    }
    assert wanted <= {module for module in MODULES if examples(module)}


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_the_module_hold_and_import_what_users_do(module: str) -> None:
    for test in examples(module):
        assert not _INNER.search("\n".join(each.source for each in test.examples)), test.name
        assert doctest.DocTestRunner().run(test).failed == 0, test.name
