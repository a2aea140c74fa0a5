"""Loads penstock's own binding to librdkafka (``librdkafka.pyx``), if it was built and fits the installed client."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import version
from types import ModuleType
from uuid import uuid4

from confluent_kafka import Consumer, cimpl

from penstock.common.log import logger

_MODULE = "penstock.kafka.librdkafka"
_REPORT = "install the versions of penstock's lock file, and report this"
CONFLUENT_KAFKA = (2, 11), (3, 0)
"""The first version that the binding supports, and the first that it does not. ``pyproject.toml`` allows the same."""


@cache
def binding() -> ModuleType | None:
    """Returns the compiled module, or None. Without it everything works, at about 70 % of the speed."""
    found, (first, end) = version("confluent-kafka"), CONFLUENT_KAFKA
    if not first <= tuple(int(part) for part in found.split(".")[:2]) < end:
        allowed = f"confluent-kafka>={first[0]}.{first[1]},<{end[0]}"
        return _not_used(f"it is not tested with confluent-kafka {found}", f"install '{allowed}'")
    try:
        # confluent-kafka loads librdkafka with local symbols; the binding looks for them among the global ones.
        library = ctypes.CDLL(cimpl.__file__, mode=ctypes.RTLD_GLOBAL)
        module = import_module(_MODULE)
        if not handle_comes_first(library):
            return _not_used(f"it cannot find librdkafka's handle in a client of confluent-kafka {found}", _REPORT)
        return module
    except ModuleNotFoundError as error:
        if error.name == _MODULE:
            return _not_used("it was not built", "install penstock again where there is a C compiler")
        return _not_used(str(error), _REPORT)
    except (ImportError, OSError, AttributeError) as error:
        return _not_used(f"it does not fit confluent-kafka {found}: {error}", _REPORT)


def handle_comes_first(library: ctypes.CDLL) -> bool:
    """Returns True if client objects begin with librdkafka's handle, which is where ``librdkafka.pyx`` reads it.

    This is not documented. So a client is made, and librdkafka is asked for the name of the handle found there, which
    contains the client's id. The kernel reads the memory for us: for an invalid address it returns an error, where a
    read of our own would crash.
    """
    name_of = library.rd_kafka_name
    name_of.argtypes, name_of.restype = [ctypes.c_void_p], ctypes.c_void_p
    client_id = uuid4().hex
    consumer = Consumer({"group.id": client_id, "client.id": client_id, "log_level": 0})
    try:
        handle = ctypes.c_void_p.from_address(id(consumer) + object.__basicsize__).value
        if not _read(handle, 1):
            return False
        return _read(name_of(handle), len(client_id)) == client_id.encode()
    finally:
        consumer.close()


def _read(address: int | None, size: int) -> bytes:
    """Returns ``size`` bytes of memory at ``address``; none if it is not a valid address."""
    reading, writing = os.pipe()
    try:
        os.write(writing, (ctypes.c_char * size).from_address(address or 0))
        return os.read(reading, size)
    except OSError:
        return b""
    finally:
        os.close(reading)
        os.close(writing)


def supports(overrides: Mapping[str, object]) -> bool:
    """Returns True if the binding supports these settings. Callbacks, and OAuth with its own, need confluent-kafka."""
    plain = all(isinstance(value, str | int | float) for value in overrides.values())
    return plain and not any("oauthbearer" in f"{key}={value}".lower() for key, value in overrides.items())


def _not_used(reason: str, remedy: str) -> ModuleType | None:
    """Warn, and return None, for :func:`binding` to return."""
    logger(__name__).warning(
        "the compiled binding to librdkafka is not used: records are read and written at about 70 % of the speed",
        reason=reason,
        remedy=remedy,
    )
    return None
