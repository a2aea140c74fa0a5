"""Whether penstock's own binding to librdkafka (``librdkafka.pyx``) was built, and fits what is installed."""

from __future__ import annotations

import ctypes
from functools import cache
from importlib import import_module
from importlib.metadata import version
from types import ModuleType

from confluent_kafka import cimpl

from penstock.common.log import logger

CONFLUENT_KAFKA = "2.16.1"
"""The one version whose client objects the binding knows. ``pyproject.toml`` pins it too."""


@cache
def binding() -> ModuleType | None:
    """The compiled module, or None: then everything works, but costs about twice the time per record."""
    found = version("confluent-kafka")
    if found != CONFLUENT_KAFKA:
        _say_why_not(f"confluent-kafka is {found}; the binding knows {CONFLUENT_KAFKA}")
        return None
    # librdkafka was loaded by confluent-kafka for itself alone; the binding looks for it among what all may see.
    ctypes.CDLL(cimpl.__file__, mode=ctypes.RTLD_GLOBAL)
    try:
        return import_module("penstock.kafka.librdkafka")
    except ModuleNotFoundError:
        _say_why_not("it was not built: install penstock again where there is a C compiler")
    except ImportError as error:
        _say_why_not(str(error))
    return None


def _say_why_not(reason: str) -> None:
    logger("penstock.kafka.binding").warning("penstock's compiled binding to librdkafka is not used", reason=reason)
