"""Imports modules of this folder when they are used: a program with one format needs the packages of no other."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from penstock.common.errors import ConfigError


def module(name: str) -> Any:
    """Returns the module ``name`` of this folder. Raises ConfigError if a package that it needs is not installed."""
    try:
        return import_module(f"penstock.registry.{name}")
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is not installed: pip install 'penstock-streams[registry]'") from error
