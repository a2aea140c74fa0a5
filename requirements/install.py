"""Sets up ``.venv``: the packages of ``lock.txt`` with their hashes, and penstock itself, editable. Run by make.

Needs only Python's standard library. Stamps inside of the environment record its inputs and the sources of the compiled
modules. A part that is incomplete, or whose inputs have changed, is made again. If two runs start at once, the second
waits for the first.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "lock.txt"
ENVIRONMENT = ROOT / ".venv"
PACKAGES_STAMP = ENVIRONMENT / ".made-from"
COMPILED_STAMP = ENVIRONMENT / ".compiled-from"
HOOKS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["hooks"]
MODULES: list[str] = HOOKS["custom"]["modules"]
BUILT = tuple(ROOT / (module + sysconfig.get_config_var("EXT_SUFFIX")) for module in MODULES)
LINK = ROOT / ".editable" / "penstock"
WITHOUT_MODULES = """\
penstock's compiled modules could not be built here (that takes a C compiler and Python's headers). Everything
works without them, at about 70 % of the speed. To see why: .venv/bin/python -m hatchling build -t wheel"""
COMPILED = (
    ROOT / "hatch_build.py",
    *(source for module in MODULES for source in sorted(ROOT.glob(f"{module}.p[xy][dx]"))),
)


def main() -> None:
    with _one_at_a_time():
        packages, compiled = _packages_fingerprint(), _compiled_fingerprint()
        if not _fits(PACKAGES_STAMP, packages):
            if PACKAGES_STAMP.exists():
                print(
                    f"{ENVIRONMENT} was made from other packages, or by another Python than {sys.executable} "
                    f"({sys.version.split()[0]}): it is made again.",
                    flush=True,
                )
            print(f"Setting up {ENVIRONMENT}: {_packages()} packages, once; a few minutes at most …", flush=True)
            _make_environment()
            PACKAGES_STAMP.write_text(packages)
        built = LINK.exists() and (all(module.exists() for module in BUILT) or _compiler() is None)
        if not _fits(COMPILED_STAMP, compiled) or not built:
            print("Installing penstock itself, with its compiled modules …", flush=True)
            _pip("--no-index", "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
            COMPILED_STAMP.write_text(compiled)
            if not all(module.exists() for module in BUILT):
                print(WITHOUT_MODULES, file=sys.stderr)
            print(f"{ENVIRONMENT} is ready.", flush=True)


def _make_environment() -> None:
    """Installs the packages of the lock, without penstock."""
    _run(sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT))
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as only_pip:
        only_pip.write(_requirement("pip"))
        only_pip.flush()
        _pip("--require-hashes", "--no-deps", "--requirement", only_pip.name)
    # The lock is complete, so there is nothing to resolve.
    _pip("--require-hashes", "--no-deps", "--requirement", str(LOCK))


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    with (ROOT / ".venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _compiler() -> str | None:
    return shutil.which((os.environ.get("CC") or "cc").split()[0])


def _fits(stamp: Path, wanted: str) -> bool:
    return stamp.exists() and stamp.read_text() == wanted


def _compiled_fingerprint() -> str:
    return hashlib.sha256(b"".join(source.read_bytes() for source in COMPILED)).hexdigest()


def _packages_fingerprint() -> str:
    """Returns a digest of all that decides what the environment holds: lock, project, Python, and its path."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    built_from = [settings["build-system"], settings["project"], settings["tool"]["hatch"], sys.version, str(ROOT)]
    return hashlib.sha256(LOCK.read_bytes() + json.dumps(built_from).encode()).hexdigest()


def _packages() -> int:
    return sum("==" in line and not line.startswith((" ", "#")) for line in LOCK.read_text().splitlines())


def _requirement(name: str) -> str:
    """Returns the lines of the lock about one package."""
    lines = LOCK.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"{name}=="))
    end = next(number for number in range(start, len(lines)) if not lines[number].endswith("\\"))
    return "\n".join(lines[start : end + 1]) + "\n"


def _pip(*arguments: str) -> None:
    # Quiet: otherwise it prints three lines for each package, and an error is lost among them.
    pip = str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"
    _run(*pip, "install", *arguments)


def _run(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT)
    if done.returncode:
        sys.exit(f"Setting up failed at: {' '.join(command)}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("Interrupted; the next run makes the environment again.")
