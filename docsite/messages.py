"""Finds the messages of the code: the log lines of level warning or error, and the public errors.

``docs/messages/`` has a section for each. ``tests/docsite/test_messages.py`` compares both.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from docsite.repository_links import ROOT

VARIES = "…"
_LEVELS = ("warning", "error", "exception", "critical")
GIVEN: dict[tuple[str, str], tuple[str, ...]] = {
    ("actors/steps.py", "…, retrying"): (),  # of WaitLog, whose calls name its texts
    ("pipeline/backfill/backfill.py", "note"): ("a backfill's note",),
}
"""Texts of log lines whose text the file does not show."""


def logged(folders: tuple[str, ...]) -> dict[str, str]:
    """Returns the texts of all lines of level warning or error, each with a place that logs it."""
    found: dict[str, str] = {}
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            file = path.relative_to(ROOT).as_posix()
            for line, text in _lines_of(ast.parse(path.read_text())):
                for each in GIVEN.get((file, text), (text,)):
                    found.setdefault(each, f"{file}:{line}")
    return found


def _lines_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            match node:
                case ast.Call(func=ast.Name("WaitLog"), args=[ast.Constant(str() as what), *_]):
                    yield node.lineno, f"{what}, retrying"
                case ast.Call(func=ast.Attribute(value=logger, attr=level), args=[what, *_]) if (
                    level in _LEVELS and "log" in ast.unparse(logger).lower()
                ):
                    yield from ((node.lineno, text) for text in _texts(what, function, tree))


def _texts(what: ast.expr, function: ast.FunctionDef | ast.AsyncFunctionDef, tree: ast.AST) -> Iterator[str]:
    """Yields the texts that an argument may have, or its source if the file does not show them."""
    match what:
        case ast.Constant(str() as text):
            yield text
        case ast.JoinedStr(parts):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else VARIES for part in parts)
        case ast.IfExp(_, one, other):
            yield from _texts(one, function, tree)
            yield from _texts(other, function, tree)
        case ast.Name(name):
            values = [*_assigned(name, function), *_handed(name, function, tree)]
            for value in values:
                yield from _texts(value, function, tree)
            if not values:
                yield name
        case _:
            yield ast.unparse(what)


def _assigned(name: str, function: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [name]:
            yield node.value


def _handed(name: str, function: ast.FunctionDef | ast.AsyncFunctionDef, tree: ast.AST) -> Iterator[ast.expr]:
    """Yields the values that calls in the same file pass as the argument ``name``."""
    names = [argument.arg for argument in function.args.args if argument.arg != "self"]
    if name not in names:
        return
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(called) | ast.Attribute(attr=called), args=arguments) if (
                called == function.name and len(arguments) > names.index(name)
            ):
                yield arguments[names.index(name)]
