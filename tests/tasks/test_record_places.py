"""The rules of ``tasks/record_places.py``: code that breaks them causes failures far away from itself."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from penstock.common.ids import TopicPartition
from penstock.tasks.record_places import PlacedHeaders, RunCursor
from tests.architecture.sources import ROOT, imports_of, python_files

BOX = Path("tasks/record_places.py")
TASKS = [file for file in python_files("tasks") if file.parts[0] == "tasks"]


def test_the_offset_is_that_of_the_value_taken_last() -> None:
    values = iter(["b", "c", "d"])
    run = RunCursor([10, 11, 15, 20], 4, values)
    assert run.left == 3
    assert [run.offset for _ in values] == [11, 15, 20]
    assert run.left == 0


def test_headers_in_place_of_others_have_the_source_of_those() -> None:
    source = TopicPartition("in", 1)
    replaced = PlacedHeaders(source, 7, [("a", b"")]).replaced_by([("b", b"")])
    assert (list(replaced), replaced.source, replaced.offset) == ([("b", b"")], source, 7)
    assert replaced.replaced_by(replaced) is replaced


def test_nothing_else_asks_an_iterator_for_its_length() -> None:
    asking = [file for file in TASKS if any(found.module == "operator" for found in imports_of(file))]
    assert [file for file in asking if "length_hint" in (ROOT / file).read_text()] == [BOX]


def test_a_loop_over_values_consumes_the_iterator_of_the_cursor() -> None:
    runs = {file: iterators_of_values((ROOT / file).read_text()) for file in TASKS}
    loops = {"global_state.py", "processing.py", "task.py", "turns.py"}
    assert {file.name for file, uses in runs.items() if uses} == loops
    assert [f"{file}: {name}" for file, uses in runs.items() for name, used in uses.items() if not is_box(used)] == []


@pytest.mark.parametrize(
    "body",
    [
        "for value, key in zip(batch.values, keys): head(key, value)",
        "for value in values: head(None, value)",
        "next(values); [head(key, value) for key, value in zip(keys, values)]",
    ],
)
def test_a_loop_beside_the_position_is_found(body: str) -> None:
    text = f"def run(batch, context):\n    values = iter(batch.values)\n    context.enter(p, o, 1, values)\n    {body}"
    assert [is_box(used) for used in iterators_of_values(text).values()] == [False]


def test_code_that_sets_headers_keeps_their_source() -> None:
    assert [f"{file}:{line}" for file in TASKS for line in careless_headers((ROOT / file).read_text())] == []


@pytest.mark.parametrize(
    "text",
    [
        "context.headers = record.headers",
        "task.headers = given",
        "context.headers, context.timestamp = record.headers, 0",
        "context.headers = given if given else headers.copy()",
    ],
)
def test_careless_headers_are_found(text: str) -> None:
    assert careless_headers(text) == [1]


def iterators_of_values(text: str) -> dict[str, set[str]]:
    """Returns, by function, the calls that use the iterator ``values`` which it makes; "" if something else does."""
    found = {}
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef) and "values = iter(batch.values" in ast.unparse(function):
            calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
            in_calls = {arg: ast.unparse(call.func).split(".")[-1] for call in calls for arg in call.args}
            found[function.name] = {
                in_calls.get(node, "")
                for node in ast.walk(function)
                if isinstance(node, ast.Name) and node.id == "values" and isinstance(node.ctx, ast.Load)
            }
    return found


def is_box(used: set[str]) -> bool:
    """Returns True if these calls give the iterator to the position, and records come from it alone."""
    return "zip" in used and used <= {"zip", "enter", "RunCursor", "_punctuate_stream_time"}


def careless_headers(text: str) -> list[int]:
    """Returns the lines that set headers to what is neither none, nor what was there before, nor has its source."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                found += [node.lineno for value in set_as_headers(target, node.value) if not is_careful(value)]
    return found


def set_as_headers(target: ast.expr, value: ast.expr) -> list[ast.expr]:
    match target, value:
        case ast.Attribute(attr="headers"), _:
            return [value]
        case ast.Tuple(elts=targets), ast.Tuple(elts=values):
            return [it for pair in zip(targets, values, strict=True) for it in set_as_headers(*pair)]
    return []


def is_careful(value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=None) | ast.Name(id="headers") | ast.Call(func=ast.Name(id="PlacedHeaders")):
            return True
        case ast.IfExp(test=test, orelse=ast.Call(func=ast.Attribute(attr="replaced_by"))):
            return "PlacedHeaders" in ast.unparse(test)
    return False
