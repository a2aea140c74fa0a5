"""Operators that write the changes of a store past ``put``: only where the write buffer allows it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.architecture.sources import PACKAGES, ROOT, python_files

OUTSIDE_OF_STATE = [file for file in python_files(*PACKAGES) if file.parts[0] != "state"]


def test_each_function_that_writes_dirty_asks_the_buffer_first() -> None:
    writing = {
        f"{file}: {function.name}": "takes_direct_writes" in ast.unparse(function)
        for file in OUTSIDE_OF_STATE
        for function in writers_of_dirty((ROOT / file).read_text())
    }
    assert writing == {"tasks/operators/aggregate.py: _count": True, "tasks/operators/sessions.py: _beginning": True}


def test_each_form_of_a_write_is_found() -> None:
    bodies = ["dirty[key] = entry", "buffer.dirty[key] = entry", "del buffer.dirty[key]", "buffer.dirty.pop(key)"]
    for body in [*bodies, "store.buffer.dirty.update({key: entry})"]:
        inside = f"class Operator:\n    def run(self, key):\n        {body}"
        assert [function.name for function in writers_of_dirty(inside)] == ["run"], body
        assert [function.name for function in writers_of_dirty(f"def run(key):\n    {body}")] == ["run"], body
    assert list(writers_of_dirty("def run(key):\n    return dirty[key] or buffer.dirty.get(key)")) == []


def writers_of_dirty(text: str) -> Iterator[ast.FunctionDef]:
    """Yields the functions of a module that change a dictionary called ``dirty``, in them or in a function inside."""
    module = ast.parse(text).body
    methods = [method for found in module if isinstance(found, ast.ClassDef) for method in found.body]
    for function in [*module, *methods]:
        if isinstance(function, ast.FunctionDef) and any(map(_changes_dirty, ast.walk(function))):
            yield function


def _changes_dirty(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript):
        return not isinstance(node.ctx, ast.Load) and _is_dirty(node.value)
    return isinstance(node, ast.Attribute) and node.attr in _CHANGING and _is_dirty(node.value)


_CHANGING = {"pop", "popitem", "clear", "update", "setdefault", "__setitem__", "__delitem__"}


def _is_dirty(node: ast.expr) -> bool:
    return (isinstance(node, ast.Name) and node.id == "dirty") or (
        isinstance(node, ast.Attribute) and node.attr == "dirty"
    )
