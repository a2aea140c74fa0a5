"""Compiles penstock's binding to librdkafka when a wheel or an editable install is made.

Without a C compiler, or Python's headers, the package is built all the same: the binding is optional.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

from Cython.Build import cythonize
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from setuptools import Distribution, Extension
from setuptools.errors import BaseError, CCompilerError

FOLDER, MODULE = "kafka", "librdkafka"


class CompiledBinding(BuildHookInterface[Any]):
    """Puts the module beside its source in an editable install, and into the wheel otherwise."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before the package is put together. ``version`` is "standard" or "editable"."""
        self._work = Path(tempfile.mkdtemp(prefix="penstock-build-"))
        folder = Path(self.root, "penstock", FOLDER)
        try:
            with contextlib.chdir(self.root):
                built = _compile(self._work)
        except (BaseError, CCompilerError) as error:
            self.app.display_warning(f"penstock is installed without its compiled binding to librdkafka: {error}")
            return
        if version == "editable":
            for old in folder.glob(f"{MODULE}.*.so"):
                old.unlink()
            shutil.move(built, folder / built.name)
        else:
            build_data["force_include"][str(built)] = f"penstock/{FOLDER}/{built.name}"
            build_data["pure_python"] = False
            build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called when the package stands."""
        shutil.rmtree(self._work, ignore_errors=True)


def _compile(work: Path) -> Path:
    name, source = f"penstock.{FOLDER}.{MODULE}", f"penstock/{FOLDER}/{MODULE}.pyx"
    extension = Extension(name, [source], extra_compile_args=["-g0"])
    modules = cythonize([extension], build_dir=str(work), quiet=True)
    command = Distribution({"ext_modules": modules}).get_command_obj("build_ext")
    command.build_lib, command.build_temp = str(work / "lib"), str(work / "temp")
    command.ensure_finalized()
    command.run()
    (built,) = (work / "lib").rglob(f"{MODULE}.*")
    return built
