"""The properties that operators declare, and the checks that none can be forgotten."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pytest

import penstock.tasks.operators  # noqa: F401  # its modules enter their closures into MAKERS
from penstock.tasks.closures import MAKERS, closure_of, make_closure
from penstock.topology.physical import operators
from penstock.topology.physical.operators.aggregate import StreamAggregate, StreamCount, StreamReduce
from penstock.topology.physical.operators.join import StreamTableJoin
from penstock.topology.physical.operators.operator import (
    KEY,
    VALUE,
    Operator,
    TableOperator,
    UserFunction,
    ValueGetter,
    WithFunctions,
    called_with,
    declares_function,
)
from penstock.topology.physical.operators.process import Process
from penstock.topology.physical.operators.stateless import (
    Branch,
    BranchCase,
    Filter,
    FlatMap,
    MapValues,
    Peek,
    SelectKey,
)
from penstock.topology.physical.operators.table import (
    FilterGetter,
    MapValuesGetter,
    StoreGetter,
    TableFilter,
    TableMapValues,
    TableSource,
)
from tests.waiting import PATIENCE_S


def concrete(kind: type[WithFunctions]) -> Iterator[type[WithFunctions]]:
    """Every class of penstock below ``kind`` of which there can be an instance."""
    for each in kind.__subclasses__():
        yield from concrete(each)
        if each.__module__.startswith("penstock.") and not inspect.isabstract(each):
            yield each


SPECS = sorted({*concrete(WithFunctions)}, key=lambda each: each.__name__)


def test_every_operator_and_every_look_up_has_exactly_one_closure() -> None:
    assert {each for each in SPECS if issubclass(each, Operator | ValueGetter)} == set(MAKERS)
    assert len(set(MAKERS.values())) == len(MAKERS)


def test_to_import_the_closures_is_to_have_all_of_them() -> None:
    program = (
        "import penstock.tasks.operators; from penstock.tasks.closures import MAKERS; "
        "print(*(each.__name__ for each in MAKERS))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert set(done.stdout.split()) == {each.__name__ for each in MAKERS}


def test_two_closures_of_one_operator_are_refused() -> None:
    with pytest.raises(TypeError, match="two functions make the closure of Filter: "):
        closure_of(Filter)(lambda spec, wiring: print)


def test_an_operator_must_declare_whether_it_keeps_key_and_value() -> None:
    @dataclass(frozen=True)
    class Says(Operator):
        keeps_key = True

    with pytest.raises(TypeError, match="keeps_value"):
        Says()  # type: ignore[abstract]  # the error is the point


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.__name__)
def test_every_field_that_holds_a_function_declares_its_arguments(spec: type[Any]) -> None:
    held = {each.name for each in fields(spec) if "Callable" in str(each.type) or "Supplier" in str(each.type)}
    assert held == {each.name for each in fields(spec) if declares_function(each.metadata)}


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.__name__)
def test_every_operator_with_functions_names_the_users_call(spec: type[Any]) -> None:
    if any(declares_function(each.metadata) for each in fields(spec)):
        assert spec.call is not WithFunctions.call


def test_only_what_may_be_called_without_its_key_has_a_flag_for_it() -> None:
    for spec in SPECS:
        flag = "with_key" in {each.name for each in fields(spec)}
        assert not flag or KEY in {name for each in fields(spec) for name in each.metadata.get("called with", ())}


def anything(*given: Any) -> Any:
    return given


def _without_addresses(given: object) -> str:
    # A test must have the same name in both processes of ``make test``.
    return re.sub(r"<function (\w+) at 0x\w+>", r"\1", str(given))


@pytest.mark.parametrize(
    ("operator", "sees"),
    [
        (Filter(anything), "key value"),
        (Filter(anything, with_key=False), "value"),
        (Peek(anything, with_key=False), "value"),
        (MapValues(anything), "value"),
        (MapValues(anything, with_key=True), "key value"),
        (SelectKey(anything), "key value"),
        (SelectKey(anything, with_key=False), "value"),
        (Branch((BranchCase("a", anything, with_key=False),)), "value"),
        (Branch((BranchCase("a", anything, with_key=False), BranchCase("b", anything))), "key value"),
        (Branch(()), ""),
        (StreamCount(store="s"), ""),
        (StreamReduce(anything, store="s"), "value"),
        (StreamAggregate(list, anything, store="s"), "key value"),
        (TableSource(), ""),
        (TableSource(store="s"), "value"),
        (TableFilter(anything, with_key=False), "value"),
        (TableMapValues(anything, with_key=True), "key value"),
        (StreamTableJoin(StoreGetter("s"), anything), "value"),
        (StreamTableJoin(StoreGetter("s"), anything, with_key=True), "key value"),
        (StreamTableJoin(MapValuesGetter(StoreGetter("s"), anything, False), anything), "value"),
        (StreamTableJoin(FilterGetter(StoreGetter("s"), anything, False), anything), "key value"),
        (Process(anything), "key value"),
    ],
    ids=_without_addresses,
)
def test_an_operator_sees_what_its_functions_are_given(operator: Operator, sees: str) -> None:
    assert [side for side in ("key", "value") if getattr(operator, f"sees_{side}")] == sees.split()


@pytest.mark.parametrize(
    ("operator", "stores"),
    [
        (Filter(anything), ()),
        (StreamCount(store="s"), ("s",)),
        (TableSource(), ()),
        (TableFilter(anything, store="s"), ("s",)),
        (StreamTableJoin(MapValuesGetter(StoreGetter("s"), anything, False), anything), ("s",)),
        (Process(anything, ("a", "b")), ("a", "b")),
    ],
    ids=_without_addresses,
)
def test_an_operator_names_its_stores(operator: Operator, stores: tuple[str, ...]) -> None:
    assert operator.stores == stores


@dataclass(frozen=True)
class Windowed(TableOperator):
    """Rows under key and window; the window becomes part of the key."""

    keeps_key = keeps_value = False


@dataclass(frozen=True)
class Buffering(TableOperator):
    """Rows under more than the key, which stays."""

    keeps_key = keeps_value = True
    stores_by_key = ()


@pytest.mark.parametrize(
    ("operator", "by_key"),
    [
        (StreamCount(store="s"), ("s",)),
        (StreamTableJoin(StoreGetter("s"), anything), ("s",)),
        (Process(anything, ("a", "b")), ()),
        (Windowed(store="s"), ()),
        (Buffering(store="s"), ()),
    ],
    ids=_without_addresses,
)
def test_rows_are_read_ahead_from_stores_that_are_looked_into_by_the_key_alone(
    operator: Operator, by_key: tuple[str, ...]
) -> None:
    assert operator.stores_by_key == by_key


def test_functions_are_replaced_wherever_they_are_and_named_by_the_call_that_took_them() -> None:
    given: list[UserFunction] = []

    def change(function: UserFunction) -> Any:
        given.append(function)
        return bool

    getter = FilterGetter(MapValuesGetter(StoreGetter("s"), anything, False), anything, True)
    join = StreamTableJoin(getter, anything, with_key=True, left=True)
    changed = join.with_functions("N", change)
    assert changed == StreamTableJoin(
        FilterGetter(MapValuesGetter(StoreGetter("s"), bool, False), bool, True), bool, with_key=True, left=True
    )
    assert [(each.owner, each.parameters) for each in given] == [
        ("map_values of the table that N joins", (VALUE,)),
        ("filter of the table that N joins", (KEY, VALUE)),
        ("left_join N", (KEY, VALUE, "the table's value")),
    ]


def test_the_functions_of_branches_are_replaced_one_by_one() -> None:
    branch = Branch((BranchCase("a", anything), BranchCase("b", bool, with_key=False)), "c")
    assert [(each.function, each.owner.split()[0], each.parameters) for each in branch.functions] == [
        (anything, "branch", (KEY, VALUE)),
        (bool, "branch", (VALUE,)),
    ]
    changed = branch.with_functions("N", lambda each: all)
    assert changed == Branch((BranchCase("a", all), BranchCase("b", all, with_key=False)), "c")


def test_a_result_that_is_iterated_is_reported() -> None:
    assert [each.many for each in FlatMap(anything).functions] == [True]
    assert [each.many for each in Filter(anything).functions] == [False]


def test_a_new_operator_needs_its_spec_and_its_closure() -> None:
    @dataclass(frozen=True)
    class Twice(Operator):
        chosen: Any = field(metadata=called_with(VALUE))

        call = "twice"
        keeps_key = keeps_value = True

    def twice(spec: Twice, wiring: Any) -> Any:
        return lambda key, value, timestamp: [wiring(key, value, timestamp) for _ in range(2) if spec.chosen(value)]

    try:
        closure_of(Twice)(twice)
        sent: list[Any] = []
        make_closure(Twice(bool), lambda *record: sent.append(record))("k", "v", 1)  # type: ignore[arg-type]
        assert sent == [("k", "v", 1)] * 2
        assert not Twice(bool).sees_key
    finally:
        del MAKERS[Twice]


def test_this_page_looks_at_all_operators() -> None:
    pages = [import_module(f"{operators.__name__}.{module.name}") for module in iter_modules(operators.__path__)]
    found = {each for page in pages for each in vars(page).values() if inspect.isclass(each) and each in SPECS}
    assert found == set(SPECS)
