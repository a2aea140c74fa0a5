"""Every example in a docstring of the program side runs."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module

import pytest

import penstock.topology

MODULES = [module.name for module in pkgutil.walk_packages(penstock.topology.__path__, "penstock.topology.")]


def test_the_modules_of_every_room_are_looked_at() -> None:
    assert {"penstock.topology.options", "penstock.topology.dsl.kgrouped_stream"} <= set(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_the_module_hold(module: str) -> None:
    assert doctest.testmod(import_module(module)).failed == 0
