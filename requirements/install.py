"""Sets up ``.venv``: the packages of ``lock.txt`` with their hashes, and penstock itself, editable. Run by make.

Needs only Python's standard library. A stamp inside of the environment names the lock it was made from: when it fits,
nothing is done; when it does not, or an earlier run was interrupted, the environment is made anew. Of two runs at once
the second waits for the first.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "lock.txt"
ENVIRONMENT = ROOT / ".venv"
STAMP = ENVIRONMENT / ".made-from"


def main() -> None:
    with _one_at_a_time():
        wanted = _fingerprint()
        if STAMP.exists() and STAMP.read_text() == wanted:
            return
        print(f"Setting up {ENVIRONMENT} (once; a few minutes at most) …", flush=True)
        _run(sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT))
        # The pip that comes with Python shows no bar while it installs, which takes longest; the pinned one does.
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as only_pip:
            only_pip.write(_requirement("pip"))
            only_pip.flush()
            _pip("--quiet", "--require-hashes", "--no-deps", "--requirement", only_pip.name)
        # The lock is complete, so there is nothing to resolve.
        _pip("--require-hashes", "--no-deps", "--requirement", str(LOCK))
        _pip("--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
        STAMP.write_text(wanted)


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    with (ROOT / ".venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fingerprint() -> str:
    """Of all that decides what the environment holds: lock, project, Python and the place itself."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    built_from = [settings["build-system"], settings["project"], settings["tool"]["hatch"], sys.version, str(ROOT)]
    return hashlib.sha256(LOCK.read_bytes() + json.dumps(built_from).encode()).hexdigest()


def _requirement(name: str) -> str:
    """The lines of the lock about one package."""
    lines = LOCK.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"{name}=="))
    end = next(number for number in range(start, len(lines)) if not lines[number].endswith("\\"))
    return "\n".join(lines[start : end + 1]) + "\n"


def _pip(*arguments: str) -> None:
    _run(str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", *arguments)


def _run(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT)
    if done.returncode:
        sys.exit(f"Setting up failed at: {' '.join(command)}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("Interrupted; the next run begins the environment anew.")
