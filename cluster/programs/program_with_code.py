"""A program as bytes that hold the user's code as well, not only the names of its modules.

While one version replaces another, both live side by side, and the old one must be there for a roll-back. The files on
the nodes are of one version alone, and it is not known of which.
"""

from __future__ import annotations

import sys
import sysconfig
import threading
from importlib.metadata import distributions
from pathlib import Path
from types import ModuleType

from ray import cloudpickle

from penstock.actors.spec import ApplicationSpec
from penstock.cluster.programs.pickled_program import pickled_program
from penstock.common.errors import ConfigError

_INSTALLED_INTO = frozenset({"site-packages", "dist-packages"})
_registering = threading.Lock()
"""Held while modules are registered: cloudpickle keeps one list of them for the whole process."""


def pickled_with_code(spec: ApplicationSpec) -> bytes:
    """The program with its code: the modules that belong to neither Python, penstock nor an installed library.

    Raises ConfigError when something that it refers to cannot be pickled, module-level variables included.
    """
    libraries = _libraries()
    modules = [module for name, module in list(sys.modules.items()) if _is_of_user(name, module, libraries)]
    with _registering:
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


def _libraries() -> set[Path]:
    """Returns Python's own folders, and what distributions have installed into any other folder of ``sys.path``.

    ``pip install --target`` makes such a folder, and the user's modules may be in it, too. An editable
    install records none of its modules, so these stay the user's.
    """
    paths = sysconfig.get_paths()
    found = {Path(paths[kind]).resolve() for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    others = [entry for entry in sys.path if _INSTALLED_INTO.isdisjoint(Path(entry).parts)]
    for distribution in distributions(path=others):
        if distribution.read_text("RECORD") is None:
            continue  # the egg-info of a project's sources
        tops = {file.parts[0] for file in distribution.files or ()} - {".."}
        found.update(Path(str(distribution.locate_file(top))).resolve() for top in tops)
    return found


def _is_of_user(name: str, module: ModuleType, libraries: set[Path]) -> bool:
    given = getattr(module, "__file__", None)
    if (
        given is None
        or name.partition(".")[0] in ("penstock", "__main__")
        or sys.modules.get(module.__name__) != module
    ):
        return False
    file = Path(given).resolve()
    return _INSTALLED_INTO.isdisjoint(file.parts) and libraries.isdisjoint((file, *file.parents))
