"""Loads the object that ``MODULE:NAME`` names: each failure is an error of one clear sentence."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from penstock.common.errors import ConfigError, StreamsError

if TYPE_CHECKING:
    from penstock.cluster.client.kafka_streams import KafkaStreams


def load_application(target: str) -> KafkaStreams:
    """The ``KafkaStreams`` object that ``MODULE:APP`` names; the current folder is searched first.

    Raises ConfigError saying what is wrong with ``target``, or the StreamsError that the module's own code raised.
    """
    from penstock.cluster.client.kafka_streams import KafkaStreams

    module_name, colon, name = target.partition(":")
    if not module_name or not colon or not name.isidentifier():
        raise ConfigError(f"{target!r} is not MODULE:APP, such as examples.word_count:app")
    if module_name.endswith(".py"):
        module_name = Path(module_name).with_suffix("").as_posix().replace("/", ".").lstrip(".")
        raise ConfigError(f"{target!r} names a file: name the module, {module_name}:{name}")
    module = _imported(module_name, search_current_folder_first())
    if not hasattr(module, name):
        there = [key for key, value in vars(module).items() if isinstance(value, KafkaStreams)]
        hint = f"; it has {', '.join(f'{module_name}:{key}' for key in there)}" if there else ""
        raise ConfigError(f"module {module_name!r} has no {name!r}{hint}")
    found = getattr(module, name)
    if not isinstance(found, KafkaStreams):
        raise ConfigError(f"{target} is a {type(found).__name__}, not a penstock.KafkaStreams")
    return found


def load_object(option: str, text: str) -> Any:
    """Returns the object that MODULE:NAME names, as ``option`` gives it; the current folder is searched first. Raises
    ConfigError, also for what the module raises."""
    module_name, colon, name = text.partition(":")
    if not module_name or not colon or not name:
        raise ConfigError(f"{option} {text!r} is not MODULE:NAME")
    try:
        module = _imported(module_name, search_current_folder_first())
    except StreamsError as error:
        raise ConfigError(f"{option} {text}: {error}") from error
    if not hasattr(module, name):
        raise ConfigError(f"{option} {text}: module {module_name!r} has no {name!r}")
    return getattr(module, name)


def search_current_folder_first() -> str:
    """Let imports find modules of the current folder first, as ``python -m`` does; its path. For commands that run the
    program of this folder: a module in it replaces a library of the same name."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return here


def search_current_folder_last() -> None:
    """Let imports find modules of the current folder that are nowhere else: the user's serdes and types of values."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)


def _imported(name: str, here: str) -> object:
    try:
        return importlib.import_module(name)
    except StreamsError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise ConfigError(f"there is no module {name!r} in {here} or on Python's path") from None
        raise ConfigError(_failed(name, error)) from error
    except Exception as error:  # importing runs the user's code
        raise ConfigError(_failed(name, error)) from error


def _is_users(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__", "").partition(".")[0] not in ("penstock", "importlib")


def _failed(name: str, error: Exception) -> str:
    places = [
        (frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__) if _is_users(frame)
    ]
    where = " ({}, line {})".format(*places[-1]) if places else ""
    return f"module {name!r} cannot be imported: {type(error).__name__}: {error}{where}"
