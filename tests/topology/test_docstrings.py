"""Every example in a docstring of the program side runs."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module

import pytest

import penstock.topology

MODULES = [f"penstock.topology.{module.name}" for module in pkgutil.iter_modules(penstock.topology.__path__)]


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_the_module_hold(module: str) -> None:
    assert doctest.testmod(import_module(module)).failed == 0
