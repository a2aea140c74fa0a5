"""Conditions on records: the small language of ``--where``.

A condition is parsed by Python's ``ast`` and translated to functions, node by node. Nodes that are not in the list
below are refused with their positions. Nothing is ever evaluated as Python.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from penstock.api.encoding import to_json
from penstock.common.errors import ConfigError, SerializationError
from penstock.common.records import Headers
from penstock.common.shown import counted, similar_to
from penstock.common.written_times import WithoutZone, ms_of_iso

NAMES = ("key", "value", "timestamp", "partition", "offset", "headers")
_CONSTANTS = {"null": None, "true": True, "false": False}
_LONGEST, _DEEPEST = 4000, 50
_PLAIN = (str, int, float, bool, type(None))


class Record(Protocol):
    """A record as conditions see it: key and value as :func:`plain` returns them, headers as text by name."""

    @property
    def key(self) -> Any:
        """The decoded key."""

    @property
    def value(self) -> Any:
        """The decoded value."""

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970."""

    @property
    def partition(self) -> int:
        """The number of its partition."""

    @property
    def offset(self) -> int:
        """Its offset."""

    @property
    def headers(self) -> Any:
        """The last text of each header."""


Get = Callable[[Record], Any]


class Condition:
    """A condition, to be called with each record. Raises ConfigError, with the position, for text that is not a
    condition. ``uncompared`` counts the comparisons of values that have no order, such as text and a number. They are
    false.
    """

    def __init__(self, text: str) -> None:
        self.text = re.sub(r"[\r\n\f]", " ", text).strip()  # ast counts columns by lines
        self.uncompared = 0
        self.first_uncompared = ""
        self._holds = _Translation(self).of(_parsed(self.text))

    def __call__(self, record: Record) -> bool:
        """Returns True if ``record`` fulfils it."""
        return bool(self._holds(record))

    @property
    def note(self) -> str:
        """The line about the comparisons of values without an order."""
        times = counted(self.uncompared, "time")
        return f"--where {self.text}: {times} it could not compare {self.first_uncompared}: taken as not true"

    def not_comparable(self, left: Any, right: Any) -> bool:
        """Note a comparison of values without an order, and return False."""
        self.uncompared += 1
        self.first_uncompared = self.first_uncompared or f"{_kind(left)} with {_kind(right)}"
        return False


def plain(value: Any) -> Any:
    """Returns ``value`` in the form that JSON shows: text, numbers, lists, and objects with fields."""
    if isinstance(value, _PLAIN):
        return value
    try:
        return msgspec.json.decode(to_json(value))
    except SerializationError:
        return repr(value)


def headers_as_text(headers: Headers | None) -> dict[str, str | None]:
    """Returns the last text of each header."""
    return {name: None if data is None else data.decode(errors="replace") for name, data in headers or ()}


def _kind(value: Any) -> str:
    return {str: "text", bool: "true or false", type(None): "null", dict: "an object", list: "a list"}.get(
        type(value), "a number"
    )


def _parsed(text: str) -> ast.expr:
    if len(text) > _LONGEST:
        raise ConfigError(f"--where: a condition has at most {_LONGEST:,} characters, this one {len(text):,}")
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        hint = next((hint for wrong, hint in _HINTS if re.search(wrong, text)), "")
        raise _error(text, max(0, (error.offset or 1) - 1), f"{error.msg}{hint}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ConfigError(f"--where: the condition cannot be read: {error or type(error).__name__}") from None


_HINTS = (
    (r"&&|\|\||!(?!=)", ": write 'and', 'or' and 'not'"),
    (r"(?<![=<>!])=(?!=)", ": '==' compares"),
    (r"\b(contains|matches)\s+[^(\s]", ": write contains(value.text, 'part') and matches(value.text, 'regex')"),
    (r"\bis\s+not\s+null|\bnot\s+null", ": write '!= null'"),
)


def _error(text: str, at: int, what: str) -> ConfigError:
    line = text.replace("\n", " ")
    return ConfigError(f"--where: column {at + 1}: {what}\n  {line}\n  {' ' * at}^")


_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class _Translation:
    """Translates the nodes of one condition."""

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self._depth = 0
        self._text = condition.text

    def of(self, node: ast.expr) -> Get:
        """Returns the function of a node."""
        if self._depth >= _DEEPEST:
            raise self._error(node, f"parts are nested more than {_DEEPEST} deep")
        self._depth += 1
        try:
            return self._of(node)
        finally:
            self._depth -= 1

    def _of(self, node: ast.expr) -> Get:
        match node:
            case ast.BoolOp(op=op, values=values):
                parts, every = [self.of(value) for value in values], isinstance(op, ast.And)
                if every:
                    return lambda record: all(part(record) for part in parts)
                return lambda record: any(part(record) for part in parts)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self.of(operand)
                return lambda record: not inner(record)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return _constant(-number)
            case ast.Compare():
                return self._comparison(node)
            case ast.Constant(value=str() | int() | float() | None as value):
                return _constant(value)
            case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
                items = [self.of(each) for each in elements]
                return lambda record: [item(record) for item in items]
            case ast.Name():
                return self._name(node)
            case ast.Attribute(value=inner_node, attr=field):
                return self._field(self.of(inner_node), field)
            case ast.Subscript(value=inner_node, slice=index):
                return self._field(self.of(inner_node), self._index(index))
            case ast.Call():
                return self._call(node)
            case _:
                raise self._error(node, f"{_words(node)} is not allowed here: a condition compares parts of a record")

    def _error(self, node: ast.expr, what: str) -> ConfigError:
        # ast counts bytes.
        return _error(self._text, len(self._text.encode()[: node.col_offset].decode()), what)

    def _name(self, node: ast.Name) -> Get:
        if node.id in _CONSTANTS:
            return _constant(_CONSTANTS[node.id])
        if node.id in NAMES:
            return operator.attrgetter(node.id)
        raise self._error(node, f"unknown name {node.id!r}{similar_to(node.id, NAMES)}: known are {', '.join(NAMES)}")

    @staticmethod
    def _field(of: Get, name: str | int) -> Get:
        def get(record: Record) -> Any:
            holder = of(record)
            if isinstance(name, str):
                return holder.get(name) if isinstance(holder, dict) else None
            if isinstance(holder, list) and -len(holder) <= name < len(holder):
                return holder[name]
            return holder.get(str(name)) if isinstance(holder, dict) else None

        return get

    def _index(self, node: ast.expr) -> str | int:
        match node:
            case ast.Constant(value=str() | int() as value) if not isinstance(value, bool):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
                return -value
            case _:
                raise self._error(node, "between brackets is the name of a field, in quotes, or a number")

    def _call(self, node: ast.Call) -> Get:
        name = node.func.id if isinstance(node.func, ast.Name) else None
        if name not in ("contains", "matches"):
            raise self._error(node, "only contains(text, part) and matches(text, regex) can be called")
        if len(node.args) != 2 or node.keywords:
            raise self._error(node, f"{name} takes two arguments: the text to search in, and the text to search for")
        holder = self.of(node.args[0])
        if name == "contains":
            part = self.of(node.args[1])
            return lambda record: self._contains(holder(record), part(record))
        if not (isinstance(node.args[1], ast.Constant) and isinstance(node.args[1].value, str)):
            raise self._error(node.args[1], "a regular expression is text in quotes")
        try:
            search = re.compile(node.args[1].value).search
        except re.error as error:
            raise self._error(node.args[1], f"this is not a regular expression: {error}") from None
        return lambda record: isinstance(text := holder(record), str) and search(text) is not None

    def _contains(self, holder: Any, part: Any) -> bool:
        if isinstance(holder, str):
            return part in holder if isinstance(part, str) else self._condition.not_comparable(holder, part)
        return part in holder if isinstance(holder, list | dict) and not isinstance(part, list | dict) else False

    def _comparison(self, node: ast.Compare) -> Get:
        operands = [node.left, *node.comparators]
        parts = [self._compared(at, operands) for at in range(len(operands))]
        tests = [self._test(op, node) for op in node.ops]

        def holds(record: Record) -> bool:
            left = parts[0](record)
            for test, part in zip(tests, parts[1:], strict=True):
                right = part(record)
                if not test(left, right):
                    return False
                left = right
            return True

        return holds

    def _compared(self, at: int, operands: list[ast.expr]) -> Get:
        """Returns the function of an operand. Text beside ``timestamp`` is a time."""
        node, beside = operands[at], operands[max(0, at - 1) : at + 2]
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and any(map(_is_timestamp, beside)):
            try:
                return _constant(ms_of_iso(node.value, WithoutZone.LOCAL))
            except ValueError:
                raise self._error(node, f"{node.value!r} is not a time such as 2026-11-21T09:30") from None
        return self.of(node)

    def _test(self, op: ast.cmpop, node: ast.Compare) -> Callable[[Any, Any], bool]:
        match op:
            case ast.Eq() | ast.Is():
                return operator.eq
            case ast.NotEq() | ast.IsNot():
                return operator.ne
            case ast.In():
                return lambda left, right: self._contains(right, left)
            case ast.NotIn():
                return lambda left, right: not self._contains(right, left)
            case _ if type(op) in _COMPARISONS:
                return self._ordered(_COMPARISONS[type(op)])
            case _:
                raise self._error(node, "this comparison is not known")

    def _ordered(self, compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
        def test(left: Any, right: Any) -> bool:
            if left is None or right is None:
                return False
            try:
                return compare(left, right)
            except TypeError:
                return self._condition.not_comparable(left, right)

        return test


def _constant(value: Any) -> Get:
    return lambda record: value


def _is_timestamp(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "timestamp"


def _words(node: ast.expr) -> str:
    return {
        ast.BinOp: "arithmetic",
        ast.Lambda: "a lambda",
        ast.IfExp: "if … else",
        ast.JoinedStr: "an f-string",
        ast.Dict: "an object",
        ast.NamedExpr: "an assignment",
    }.get(type(node), f"{type(node).__name__}")
