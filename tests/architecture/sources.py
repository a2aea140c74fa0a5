"""The input of the architecture tests: the Python files of the repository and the imports of each of them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PACKAGES = (
    "common",
    "registry",
    "objects",
    "state",
    "checkpoints",
    "topology",
    "tasks",
    "kafka",
    "actors",
    "cluster",
    "api",
    "pipeline",
    "testing",
    "cli",
)
"""The folders that penstock/ links to."""

OUTSIDE = ("benchmarks", "deploy", "docsite", "examples", "requirements", "tests")
"""Folders with Python in them that are no part of the package."""


@dataclass(frozen=True)
class Import:
    """One imported module and where; an import inside of a function, or for types only, counts as any other."""

    file: Path
    line: int
    module: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.module}"


def python_files(*folders: str) -> list[Path]:
    """All Python files below these folders, and those of penstock/ itself, relative to the root."""
    found = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    found += (ROOT / "penstock").glob("*.py")
    return sorted(file.relative_to(ROOT) for file in found)


@cache
def imports_of(file: Path, text: str | None = None) -> tuple[Import, ...]:
    """Everything that a file imports, by ``import``, ``from … import`` or ``import_module("…")``."""
    tree = ast.parse((ROOT / file).read_text() if text is None else text)
    found: list[Import] = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found += [Import(file, node.lineno, alias.name) for alias in names]
            case ast.ImportFrom(module=module, names=names, level=level):
                # `from penstock import kafka` imports penstock.kafka: the names are part of what is meant.
                base = "." * level + (module or "")
                full = [f"{base}.{alias.name}" if base == "." or _is_package(base) else base for alias in names]
                found += [Import(file, node.lineno, name) for name in dict.fromkeys(full)]
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                found.append(Import(file, node.lineno, name))
    return tuple(found)


def _is_package(module: str) -> bool:
    top, *path = module.split(".")
    return top == "penstock" and (not path or ROOT.joinpath(*path).is_dir())
