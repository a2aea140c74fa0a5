"""A program as bytes that hold the user's code as well, not only the names of its modules.

While one version replaces another, both live side by side, and the old one must be there for a roll-back. The files on
the nodes are of one version alone, and nobody knows of which.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from types import ModuleType

from ray import cloudpickle

from penstock.actors.messages import ApplicationSpec
from penstock.cluster.pickled_program import pickled_program
from penstock.common.errors import ConfigError


def pickled_with_code(spec: ApplicationSpec) -> bytes:
    """The program with its code: the modules that belong to neither Python, penstock nor an installed library.

    Raises ConfigError when something that it refers to cannot be pickled, module-level variables included.
    """
    modules = [module for name, module in list(sys.modules.items()) if _is_of_user(name, module)]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]  # untyped in Ray
    try:
        return pickled_program(spec)
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]  # untyped in Ray


def unpickled_program(pickled: bytes) -> ApplicationSpec:
    """The program. Raises ConfigError when a library that it needs is not here."""
    try:
        spec: ApplicationSpec = cloudpickle.loads(pickled)
    except Exception as error:  # unpickling runs arbitrary code of the user's objects
        raise ConfigError(f"the program cannot be read here: {type(error).__name__}: {error}") from error
    return spec


def _is_of_user(name: str, module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if file is None or name.partition(".")[0] in ("penstock", "__main__") or sys.modules.get(module.__name__) != module:
        return False
    paths = sysconfig.get_paths()
    libraries = {Path(paths[kind]).resolve() for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    return libraries.isdisjoint(Path(file).resolve().parents)
