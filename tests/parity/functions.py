"""The functions that parity cases name, with Java's semantics: ``name`` or ``name:argument``."""

from __future__ import annotations

from typing import Any


def text(value: Any) -> str:
    """Returns the string that Java's string concatenation makes of ``value``."""
    return "null" if value is None else str(value)


def split_name(function: str) -> tuple[str, str]:
    """Returns the name and the argument of ``function``."""
    name, _, argument = function.partition(":")
    return name, argument


def length(value: Any) -> int:
    """``String.length``: UTF-16 units."""
    return len(text(value).encode("utf-16-le")) // 2


def first_char(value: Any) -> str | None:
    """``substring(0, 1)``, null of nothing; half a surrogate pair is written as ``?``."""
    first = text(value)[:1]
    if not first:
        return None
    return first if ord(first) < 0x10000 else "?"


def java_split(value: str, separator: str) -> list[str]:
    """``String.split``: trailing empty strings are dropped, but a string without separator is its only part."""
    if separator not in value:
        return [value]
    parts = value.split(separator)
    while parts and not parts[-1]:
        parts.pop()
    return parts


def predicate(function: str, key: Any, value: Any) -> bool:
    """Returns True if a record passes ``function``."""
    name, argument = split_name(function)
    match name:
        case "len_gt":
            return value is not None and length(value) > int(argument)
        case "even":
            return value is not None and value % 2 == 0
        case "key_in":
            return key is not None and text(key) in java_split(argument, ",")
        case "contains":
            return value is not None and argument in text(value)
        case "not_null":
            return value is not None
    raise ValueError(f"unknown predicate {function!r}")


def mapped_value(function: str, value: Any) -> Any:
    """The value a mapper makes of ``value``."""
    name, argument = split_name(function)
    match name:
        case "concat":
            return text(value) + argument
        case "to_string":
            return text(value)
        case "identity":
            return value
    if name not in ("upper", "len", "add", "null_if", "null_if_contains"):
        raise ValueError(f"unknown mapper {function!r}")
    if value is None:
        return None
    match name:
        case "upper":
            return text(value).upper()
        case "len":
            return length(value)
        case "add":
            return value + int(argument)
        case "null_if":
            return None if text(value) == argument else value
    return None if argument in text(value) else value


def key_of(function: str, key: Any, value: Any) -> Any:
    """The key a selector makes of a record."""
    name, argument = split_name(function)
    match name:
        case "first_char":
            return None if value is None else first_char(value)
        case "value":
            return None if value is None else text(value)
        case "key_upper":
            return None if key is None else text(key).upper()
        case "key_first":
            return None if key is None else first_char(key)
        case "same":
            return key
        case "const":
            return argument
    raise ValueError(f"unknown key selector {function!r}")


def flat(function: str, value: Any) -> list[Any]:
    """The values a flat mapper makes of ``value``."""
    name, _ = split_name(function)
    match name:
        case "split":
            return [] if value is None else list(java_split(text(value), " "))
        case "twice":
            return [value, value]
        case "none":
            return []
    raise ValueError(f"unknown flat mapper {function!r}")


def fold(function: str, value: Any, aggregate: Any) -> Any:
    """Returns the next aggregate."""
    name, argument = split_name(function)
    match name:
        case "concat":
            return f"{text(aggregate)}+{text(value)}"
        case "minus":
            return f"{text(aggregate)}-{text(value)}"
        case "sum":
            return aggregate + (value if isinstance(value, int) else length(value))
        case "sub":
            return aggregate - (value if isinstance(value, int) else length(value))
        case "max":
            return max(aggregate, value)
        case "last":
            return value
        case "drop_on":
            return None if text(value) == argument else f"{text(aggregate)}+{text(value)}"
    raise ValueError(f"unknown aggregator {function!r}")


def initial(function: str) -> Any:
    """Returns the first aggregate."""
    match function:
        case "empty":
            return ""
        case "zero":
            return 0
    raise ValueError(f"unknown initializer {function!r}")


def pair(left: Any, right: Any) -> str:
    """The joiner of parity cases: both values as text, in parentheses."""
    return f"({text(left)},{text(right)})"
