"""Loads penstock's own binding to librdkafka (``librdkafka.pyx``), if it was built and fits what is installed."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import version
from types import ModuleType

from confluent_kafka import cimpl

from penstock.common.log import logger

_MODULE = "penstock.kafka.librdkafka"
CONFLUENT_KAFKA = "2.16.1"
"""The one version whose client objects the binding knows. ``pyproject.toml`` pins it too."""


@cache
def binding() -> ModuleType | None:
    """Returns the compiled module, or None: then everything works, at about 70 % of the speed."""
    found = version("confluent-kafka")
    if found != CONFLUENT_KAFKA:
        _warn_not_in_use(f"confluent-kafka is {found}; the binding supports {CONFLUENT_KAFKA}")
        return None
    try:
        # librdkafka was loaded by confluent-kafka for itself alone; the binding looks for it among what all may see.
        ctypes.CDLL(cimpl.__file__, mode=ctypes.RTLD_GLOBAL)
        return import_module(_MODULE)
    except ModuleNotFoundError as error:
        missing = error.name == _MODULE
        _warn_not_in_use(
            "it was not built: install penstock again where there is a C compiler" if missing else str(error)
        )
    except (ImportError, OSError) as error:
        _warn_not_in_use(str(error))
    return None


def supports(overrides: Mapping[str, object]) -> bool:
    """Returns True if the binding supports these settings: callbacks, and what becomes one, need confluent-kafka."""
    plain = all(isinstance(value, str | int | float) for value in overrides.values())
    return plain and not any("oauthbearer" in f"{key}={value}".lower() for key, value in overrides.items())


def _warn_not_in_use(reason: str) -> None:
    logger(__name__).warning("penstock's compiled binding to librdkafka is not used", reason=reason)
