"""``penstock new``: creates a project: a program, its tests, and the other files of a first commit."""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.output import AsJson, print_json
from penstock.common.errors import ConfigError
from penstock.common.version import version

_LONGEST_NAME = 100
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
_TAKEN = frozenset({"tests", "test", "penstock"})


class Template(StrEnum):
    """The programs that a project may begin with."""

    WORD_COUNT = "word-count"
    WINDOWS = "windows"
    PROCESSOR = "processor"


@dataclass(frozen=True)
class _Story:
    """The parts of the README that depend on the program."""

    description: str
    topics: str
    output: str
    send: str
    query: str


_STORIES = {
    Template.WORD_COUNT: _Story(
        "Counts the words of a topic.",
        "lines word-counts",
        "word-counts",
        "echo 'to be or not to be' | penstock topic send lines",
        "penstock query {{project}} counts be",
    ),
    Template.WINDOWS: _Story(
        "Sums the orders of each customer per minute.",
        "orders sums-per-minute",
        "sums-per-minute",
        "echo 'ada=3.5' | penstock topic send orders -k = --value double",
        "penstock query {{project}} sums ada",
    ),
    Template.PROCESSOR: _Story(
        "Reports each sensor that has been silent for a minute.",
        "readings silent-sensors",
        "silent-sensors",
        "echo 'attic=20.5' | penstock topic send readings -k = --value double",
        "penstock query {{project}} last-readings",
    ),
}


def register(app: typer.Typer) -> None:
    """Mount the command on the root."""
    app.command()(new)


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The project's name, or a path that ends with it")],
    template: Annotated[Template, typer.Option(help="The kind of program")] = Template.WORD_COUNT,
    as_json: AsJson = False,
) -> None:
    """Create a project in a new folder: a program, its tests, pyproject.toml, README.md, .gitignore."""
    folder = Path(name)
    files = project_files(folder.name, template)
    _check_folder(folder)
    try:
        for path, text in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error}") from error
    if as_json:
        print_json({"folder": str(folder), "files": sorted(files)})
        return
    for path in sorted(files):
        typer.echo(folder / path)
    typer.echo(f"\nNext: cd {folder} && python -m pytest; README.md has the next steps")


def project_files(project: str, template: Template) -> dict[str, str]:
    """Returns the files of a project, by their paths in its folder. Raises ConfigError for a name that is none."""
    package = package_of(project)
    story = _STORIES[template]
    names = {
        "description": story.description,
        "topics": story.topics,
        "output": story.output,
        "send": story.send,
        "query": story.query,
        "project": project,
        "package": package,
        "version": version(),
    }
    own = f"{template.value.replace('-', '_')}/"
    sources = {
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        ".gitignore": "gitignore",
        f"{package}/program.py": f"{own}program.py",
        "tests/test_program.py": f"{own}test_program.py",
    }
    files = {path: _filled(source, names) for path, source in sources.items()}
    return {**files, f"{package}/__init__.py": "", "tests/__init__.py": ""}


def package_of(project: str) -> str:
    """Returns the name of the package of a project. Raises ConfigError for a name from which none can be made."""
    if not _NAME.fullmatch(project) or len(project) > _LONGEST_NAME:
        raise ConfigError(
            f"{project!r} is not a name for a project: begin with a letter, and use up to {_LONGEST_NAME} letters, "
            "digits, '-', '_' and '.'"
        )
    package = re.sub(r"[-.]", "_", project).lower()
    if keyword.iskeyword(package) or package in _TAKEN or package in sys.stdlib_module_names:
        raise ConfigError(
            f"{project!r}: Python, or this project, has a module {package!r} already: choose another name"
        )
    if importlib.util.find_spec(package) is not None:
        raise ConfigError(
            f"{project!r}: a module {package!r} is installed, or lies in this folder: choose another name"
        )
    return package


def _check_folder(folder: Path) -> None:
    try:
        if folder.is_dir() and not any(folder.iterdir()):
            return
        there = folder.exists() or folder.is_symlink()
    except OSError as error:
        raise ConfigError(f"{folder} cannot be used: {error}") from error
    if there:
        what = "is a folder that is not empty" if folder.is_dir() else "is a file"
        raise ConfigError(f"{folder} {what}: choose another name; nothing was written")


def _filled(source: str, names: dict[str, str]) -> str:
    text = resources.files("penstock.cli").joinpath("templates", f"{source}.txt").read_text(encoding="utf-8")
    for name, value in names.items():
        text = text.replace("{{" + name + "}}", value)
    return text
