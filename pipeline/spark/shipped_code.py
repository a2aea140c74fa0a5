"""Sends the code of penstock and of the user's program to Spark's executors: they need no installation of either.

An archive that Spark unpacks beside each executor, because Python imports compiled modules from files alone.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

from pyspark import SparkContext

from penstock.common.errors import StreamsError
from penstock.common.users_modules import users_modules

_LIMIT_BYTES = 100 << 20
_LEFT_OUT = frozenset({"__pycache__", "node_modules"})


def ship_code(context: SparkContext, folder: Path) -> str:
    """Send the code to every executor of ``context``, with an archive in ``folder``. Executors import it before what is
    installed on their machines. Returns the name of the folder in which each has it. Raises StreamsError if the user's
    modules are too large to be sent."""
    archive = folder / "penstock-code.zip"
    write_archive(archive, shipped_roots())
    # The folder's name differs with each session: executors keep what they have unpacked.
    name = folder.name
    context.addArchive(f"{archive}#{name}")
    given = context.environment.get("PYTHONPATH", "")
    context.environment["PYTHONPATH"] = os.pathsep.join([name, *filter(None, [given])])
    return name


def write_archive(archive: Path, roots: dict[str, Path]) -> None:
    """Write files and folders, by their names within the archive. Raises StreamsError if they are too large."""
    size = 0
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
        for name, root in sorted(roots.items()):
            for file, inside in _files(root, name):
                size += file.stat().st_size
                if size > _LIMIT_BYTES:
                    raise StreamsError(
                        f"the modules of the program are too large to be sent to Spark's executors: {root} and what "
                        f"is sent before it have more than {_LIMIT_BYTES >> 20} MiB. Move data out of the package, or "
                        "install the package in site-packages, here and on the executors' machines"
                    )
                written.write(file, inside)


def shipped_roots() -> dict[str, Path]:
    """Returns penstock, each of the user's imported packages whole, and the modules beside the user's imported ones."""
    roots = {"penstock": Path(__file__).absolute().parents[2]}
    for module in users_modules():
        name, file = module.__name__, Path(str(module.__file__)).absolute()
        top, *inner = name.split(".")
        if not inner and not hasattr(module, "__path__"):
            roots |= {beside.name: beside for beside in file.parent.glob("*.py")}
        else:
            depth = len(inner) + hasattr(module, "__path__")
            roots[top] = file.parents[depth - 1]
    return roots


def _files(root: Path, name: str) -> Iterator[tuple[Path, str]]:
    if root.is_file():
        yield root, name
        return
    for folder, folders, files in os.walk(root, followlinks=True):
        folders[:] = [each for each in folders if each not in _LEFT_OUT and not each.startswith(".")]
        inside = Path(name) / Path(folder).relative_to(root)
        for file in files:
            if not file.startswith(".") and (Path(folder) / file).is_file():
                yield Path(folder) / file, str(inside / file)
