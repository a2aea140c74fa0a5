"""Makes the lock files again from pyproject.toml, for every platform and Python from 3.11 on. Run by ``make lock``.

Versions that still fit stay; delete a line of ``lock.txt`` to let that package move.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def compile_lock(name: str, *selection: str) -> None:
    """One lock file, with a hash for every file of every package and no word on where they are fetched."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--quiet", "--universal"]
    command += ["--python-version", "3.11", "--generate-hashes", "--no-emit-index-url", "--no-emit-find-links"]
    command += ["--custom-compile-command", "make lock", "--output-file", f"requirements/{name}", *selection]
    subprocess.run(command, cwd=FOLDER.parent, check=True)


if __name__ == "__main__":
    compile_lock("lock.txt", "--all-extras")
    # What a Ray worker installs: the same versions, without the extras.
    compile_lock("base.txt", "--constraint", "requirements/lock.txt")
