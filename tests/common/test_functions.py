"""Places of functions in files."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from penstock.common.functions import FunctionPlace, place_of, place_with_class_of


def double(number: int) -> int:
    return 2 * number


class Adds:
    def __call__(self, number: int) -> int:
        return number + 1


def test_a_function_is_named_with_its_file_and_line() -> None:
    line = double.__code__.co_firstlineno
    assert place_of(double) == FunctionPlace("double", __file__, line)
    assert str(place_of(double)) == f"double ({__file__}:{line})"


def test_a_partial_is_the_function_that_it_calls() -> None:
    assert place_of(partial(partial(double), 1)) == place_of(double)


def test_what_has_no_code_of_python_has_a_name_alone() -> None:
    assert place_of(len) == FunctionPlace("len")
    assert str(place_of(Adds())) == "Adds"


def test_a_class_and_an_object_that_is_called_have_the_place_of_the_class() -> None:
    found = place_with_class_of(Adds)
    assert (found.name, found.file) == ("Adds", __file__)
    assert Path(__file__).read_text().splitlines()[(found.line or 0) - 1] == "class Adds:"
    assert place_with_class_of(partial(Adds(), 1)) == found
    assert place_with_class_of(double) == place_of(double)


def test_a_class_whose_file_is_not_here_has_a_name_alone() -> None:
    scope: dict[str, type] = {}
    exec("class Nowhere: pass", {"__name__": "no_module"}, scope)
    assert place_with_class_of(scope["Nowhere"]) == FunctionPlace("Nowhere")
    assert place_with_class_of(len) == FunctionPlace("len")
    assert place_with_class_of(int) == FunctionPlace("int")
