"""Compiles the modules that have a ``.pyx``, when a wheel or an editable install is made.

Without a C compiler or Python's headers, the package is built without them: Python code then does the same work.

For an editable install it also makes the folder that goes on Python's path: a link to ``penstock/`` alone.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from Cython.Build import cythonize
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from setuptools import Distribution, Extension
from setuptools.errors import BaseError, CCompilerError

LINK, TARGET = Path(".editable", "penstock"), Path("..", "penstock")


class CompiledModules(BuildHookInterface[Any]):
    """Puts each module beside its source in an editable install, and into the wheel otherwise."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before the package is put together. ``version`` is "standard" or "editable"."""
        self._work = Path(tempfile.mkdtemp(prefix="penstock-build-"))
        self._modules: list[str] = self.config["modules"]
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        beside = {module: Path(self.root, "penstock", module + suffix) for module in self._modules}
        if version == "editable":
            _link(Path(self.root, LINK))
        try:
            with contextlib.chdir(self.root):
                library = _compile(self._modules, self._work)
        except BaseException as error:
            if version == "editable":
                for target in beside.values():
                    target.unlink(missing_ok=True)  # one of an older source must not stay in use
            if not isinstance(error, BaseError | CCompilerError | OSError):
                raise  # an interruption, or a mistake in a source, which Cython reports
            self.app.display_warning(f"penstock is installed without its compiled modules: {error}")
            return
        for module, target in beside.items():
            built = library / "penstock" / (module + suffix)
            if version == "editable":
                # Replaced in one step: another process may load it at this moment.
                arriving = target.with_name(f"{target.name}.{os.getpid()}")
                shutil.copy(built, arriving)
                arriving.replace(target)
            else:
                build_data["force_include"][str(built)] = f"penstock/{module}{suffix}"
                build_data["pure_python"] = False
                build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called when the package is complete."""
        shutil.rmtree(self._work, ignore_errors=True)


def _link(link: Path) -> None:
    link.parent.mkdir(exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(TARGET)


def _compile(modules: list[str], work: Path) -> Path:
    """Compiles ``modules``; returns the folder that holds them, as packages."""
    extensions = [
        Extension(f"penstock.{module.replace('/', '.')}", [f"penstock/{module}.pyx"], extra_compile_args=["-g0"])
        for module in modules
    ]
    cythonized = cythonize(extensions, build_dir=str(work), quiet=True)
    command = Distribution({"ext_modules": cythonized}).get_command_obj("build_ext")
    command.build_lib, command.build_temp = str(work / "lib"), str(work / "temp")
    command.ensure_finalized()
    command.run()
    return work / "lib"
