"""Finds the modules of the user's program among all that this process has imported."""

from __future__ import annotations

import sys
import sysconfig
from importlib.metadata import distributions
from pathlib import Path
from types import ModuleType

_INSTALLED_INTO = frozenset({"site-packages", "dist-packages"})


def users_modules() -> list[ModuleType]:
    """Returns the imported modules that belong to neither Python, penstock nor an installed library."""
    libraries = _libraries()
    return [module for name, module in list(sys.modules.items()) if _is_of_user(name, module, libraries)]


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
