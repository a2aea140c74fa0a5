"""Turns keys and values into bytes, byte for byte as Kafka Streams' own serdes do it.

A serde is a value of two plain functions: operators call the functions directly, so that nothing is looked up per
record. ``None`` never reaches a serde: a null key or value is null on the wire.
"""

from __future__ import annotations

import builtins
import re
import uuid as _uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, Literal, SupportsIndex, TypeVar, overload

from typing_extensions import override

from penstock.common import plain_bytes
from penstock.common.errors import ConfigError, RetriableError, SerializationError, StreamsError, TopologyError
from penstock.common.list_bytes import ListBytes
from penstock.common.plain_json import read_json, write_json
from penstock.common.shown import shown_with_type
from penstock.common.typed_json import name_of, typed_json

T = TypeVar("T")
SerdePart = Literal["key", "value"]
_TYPE = re.compile(r"(?<!windowed)(?<!list)\([^()]*\)")


@dataclass(frozen=True)
class Serde(Generic[T]):
    """A pair of functions between objects and bytes.

    ``serialize`` and ``deserialize`` may raise any exception; penstock adds topic, partition and offset.
    ``from_text`` reads a key given as text, in a URL or on the command line. ``lossless`` promises that every byte
    string which can be decoded is the form of exactly one object; then bytes that no user function looks at may travel
    undecoded. ``check``, of a lossless serde, takes many byte strings, and raises unless all of them can be decoded; it
    costs less than decoding them. A lossless serde without ``check`` promises that it can decode every byte string.
    """

    name: str
    serialize: Callable[[T], bytes]
    deserialize: Callable[[bytes], T]
    from_text: Callable[[str], T] | None = None
    lossless: bool = False
    check: Callable[[Iterable[bytes]], object] | None = None

    def bind(self, topic: str, part: SerdePart) -> Serde[T]:
        """Returns the serde of the keys, or of the values, of ``topic``: itself, unless a subclass decides otherwise.

        Override it in a serde whose bytes depend on the topic, as those of a schema registry do, whose subjects are
        ``<topic>-key`` and ``<topic>-value``. A store is bound to its changelog topic, even if it has no changelog.
        penstock calls this method whenever it makes or checks a program, also if no record ever comes: so it should
        only take note of the topic. The same topic and part must give equal serdes: bytes that no function looks at
        travel undecoded only between equal ones. If it raises, the program gets a ConfigError (docs/SERDES.md).
        """
        return self

    def configure(self, config: Mapping[str, Any]) -> Serde[T]:
        """Returns the serde with the settings of the application; by default the serde itself.

        ``config`` has the settings of a schema registry (docs/SCHEMA_REGISTRY.md). penstock calls this method before
        :meth:`bind`, for each serde of a program. Mirrors ``Serde.configure``.
        """
        return self

    def prepare(self) -> None:
        """Get ready to write, for example by registering a schema.

        Called before a task takes its first record, on each serde that is bound to a topic which the task writes. It
        must not wait: it raises RetriableError until it is ready, and is called again. Any other error ends the
        application.
        """

    def __repr__(self) -> str:
        return f"Serde({self.name})"

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        # Built-in serdes are pickled by name: their functions are C objects that cannot be pickled.
        if _BUILT_IN.get(self.name) is self:
            return _built_in, (self.name,)
        if (kind := _KINDS.get(id(self))) is not None:
            return _typed, (kind,)
        return super().__reduce_ex__(protocol)


def format_of(name: str) -> str:
    """Returns the format of the bytes that a serde of this name writes: the name without the type of what it reads. Of
    ``time-windowed(json(Order), 1000 ms)`` it is ``time-windowed(json, 1000 ms)``, of ``list(json(Order))`` it is
    ``list(json)``."""
    return _TYPE.sub("", name)


def bound(serde: Serde[T], topic: str, part: SerdePart, config: Mapping[str, Any] | None = None) -> Serde[T]:
    """Returns ``serde`` with the settings ``config``, bound to a part of a topic. Raises ConfigError, which names topic
    and part, if it cannot be bound."""
    where = f"serde {serde.name} cannot be bound to topic {topic!r} ({part})"
    try:
        made = (serde.configure(config) if config else serde).bind(topic, part)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    except StreamsError:
        raise
    except Exception as error:
        raise ConfigError(f"{where}: {type(error).__name__}: {error}") from error
    if not isinstance(made, Serde):
        raise ConfigError(f"{where}: its bind returned {shown_with_type(made)}, not a Serde")
    return made


_STRING: Serde[str] = Serde("string", str.encode, bytes.decode, str, lossless=True, check=plain_bytes.check_text)
_BYTES: Serde[bytes] = Serde("bytes", bytes.__bytes__, plain_bytes.same, str.encode, lossless=True)
_BYTE_BUFFER: Serde[memoryview] = Serde(
    "byte_buffer", plain_bytes.serialize_buffer, memoryview, lambda text: memoryview(text.encode()), lossless=True
)
_SHORT: Serde[int] = Serde("short", *plain_bytes.fixed("short", ">h"), int)
_INTEGER: Serde[int] = Serde("integer", *plain_bytes.fixed("integer", ">i"), int)
_LONG: Serde[int] = Serde("long", *plain_bytes.fixed("long", ">q"), int)
_FLOAT: Serde[float] = Serde("float", *plain_bytes.fixed("float", ">f"), float)
_DOUBLE: Serde[float] = Serde("double", *plain_bytes.fixed("double", ">d"), float)
_BOOLEAN: Serde[bool] = Serde(
    "boolean", plain_bytes.serialize_boolean, plain_bytes.deserialize_boolean, plain_bytes.bool_of_text
)
_UUID: Serde[_uuid.UUID] = Serde("uuid", plain_bytes.serialize_uuid, plain_bytes.deserialize_uuid, _uuid.UUID)
_JSON: Serde[Any] = Serde("json", write_json, read_json, lambda text: read_json(text.encode()))
_VOID: Serde[None] = Serde("void", plain_bytes.serialize_void, plain_bytes.deserialize_void)

_BUILT_IN: dict[str, Serde[Any]] = {
    serde.name: serde
    for serde in (
        _STRING, _BYTES, _BYTE_BUFFER, _SHORT, _INTEGER, _LONG, _FLOAT, _DOUBLE, _BOOLEAN, _UUID, _JSON, _VOID
    )
}  # fmt: skip

# Those for which Kafka's ListSerializer writes no lengths, with the bytes that each element takes.
_OF_ONE_LENGTH = {_SHORT: 2, _INTEGER: 4, _LONG: 8, _FLOAT: 4, _DOUBLE: 8, _UUID: 36}


@dataclass(frozen=True, repr=False)
class SerdeOver(Serde[T], ABC):
    """A serde of objects that contain those of another serde, ``inner``, such as lists. If it is bound to a topic, so
    is ``inner``."""

    inner: Serde[Any] = field(kw_only=True)

    @abstractmethod
    def over(self, inner: Serde[Any]) -> Serde[T]:
        """Returns the same over ``inner``. Two over equal serdes are equal."""

    @override
    def configure(self, config: Mapping[str, Any]) -> Serde[T]:
        return self.over(self.inner.configure(config))

    @override
    def bind(self, topic: str, part: SerdePart) -> Serde[T]:
        return self.over(bound(self.inner, topic, part))

    @override
    def prepare(self) -> None:
        self.inner.prepare()


@dataclass(frozen=True, repr=False)
class ListSerde(SerdeOver[list[T]]):
    """A serde of lists: ``inner`` is that of the elements. Made by :meth:`Serdes.list`."""

    @override
    def over(self, inner: Serde[Any]) -> Serde[list[T]]:
        return _list(inner)

    @override
    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        return _list, (self.inner,)


@cache
def _list(inner: Serde[Any]) -> ListSerde[Any]:
    """Returns the serde, made once for each serde of elements, so that two of the same are equal."""
    name = f"list({inner.name})"
    form = ListBytes(name, inner.serialize, inner.deserialize, _OF_ONE_LENGTH.get(inner))
    return ListSerde(name, form.write, form.read, inner=inner)


# The serde of a type is made once, so that two of one type are equal; it is pickled as the type.
_TYPED: dict[Any, Serde[Any]] = {}
_KINDS: dict[int, Any] = {}  # by the serde's id


def _built_in(name: str) -> Serde[Any]:
    return _BUILT_IN[name]


def _typed(kind: Any) -> Serde[Any]:
    try:
        known = kind in _TYPED
    except TypeError as error:
        raise TopologyError(f"Serdes.json({kind}): {error}: give the type itself, not an object of it") from error
    if not known:
        write, read = typed_json(kind)
        serde = _TYPED[kind] = Serde(f"json({name_of(kind)})", write, read, lambda text: read(text.encode()))
        _KINDS[id(serde)] = kind
    return _TYPED[kind]


def json_type(serde: Serde[Any]) -> Any:
    """Returns the type that ``Serdes.json`` was given; None for every other serde, and without one."""
    return _KINDS.get(id(serde))


class Serdes:
    """The serdes that come with penstock; the bytes are those of Kafka's own ``Serdes``."""

    @staticmethod
    def string() -> Serde[str]:
        """UTF-8 text."""
        return _STRING

    @staticmethod
    def bytes() -> Serde[builtins.bytes]:
        """Bytes as they are."""
        return _BYTES

    @staticmethod
    def byte_buffer() -> Serde[memoryview]:
        """Bytes as they are, as a memoryview of them: Java's ``ByteBuffer``. All bytes of a view are written."""
        return _BYTE_BUFFER

    @staticmethod
    def short() -> Serde[int]:
        """A signed integer in 2 bytes, big endian."""
        return _SHORT

    @staticmethod
    def integer() -> Serde[int]:
        """A signed integer in 4 bytes, big endian."""
        return _INTEGER

    @staticmethod
    def long() -> Serde[int]:
        """A signed integer in 8 bytes, big endian."""
        return _LONG

    @staticmethod
    def float() -> Serde[builtins.float]:
        """An IEEE number in 4 bytes, big endian."""
        return _FLOAT

    @staticmethod
    def double() -> Serde[builtins.float]:
        """An IEEE number in 8 bytes, big endian: Python's own float."""
        return _DOUBLE

    @staticmethod
    def boolean() -> Serde[bool]:
        """One byte, 0 or 1."""
        return _BOOLEAN

    @staticmethod
    def uuid() -> Serde[_uuid.UUID]:
        """The 36 characters of a UUID."""
        return _UUID

    @staticmethod
    def list(inner: Serde[T]) -> Serde[builtins.list[T]]:
        """Lists of objects of the serde ``inner``; elements may be None. Mirrors ``Serdes.ListSerde``.

        As in Kafka, elements of the serdes short, integer, long, float, double and uuid are written without their
        lengths, all others with them.

        >>> import penstock as ps
        >>> ps.Serdes.list(ps.Serdes.string()).serialize(["a", None]).hex()
        '01000000020000000161ffffffff'
        """
        if not isinstance(inner, Serde):
            raise TopologyError(f"Serdes.list: the Serde of the elements is needed, not {shown_with_type(inner)}")
        return _list(inner)

    @overload
    @staticmethod
    def json() -> Serde[Any]: ...
    @overload
    @staticmethod
    def json(kind: type[T]) -> Serde[T]: ...
    @overload
    @staticmethod
    def json(kind: Any) -> Serde[Any]: ...
    @staticmethod
    def json(kind: Any = None) -> Serde[Any]:
        """JSON as compact UTF-8: of the type ``kind``, or of plain values.

        Without ``kind``: dict with str keys, list, str, int of any size, float, bool, None. A value that would be read
        back as something else (a tuple, a set, an int key, a dataclass, a date, an enumeration) or not at all (NaN) is
        refused when it is written. More than 200 nested dicts and lists are refused both when they are written and when
        they are read.

        With ``kind``: a dataclass, TypedDict, NamedTuple, msgspec.Struct or model of pydantic, ``list[int]``,
        ``dict[int, Order]``, ``A | B`` of tagged Structs, and whatever else msgspec can distinguish. Values that are
        read are of that type, and data that does not fit is a SerializationError that says what does not fit, and
        where. Raises TopologyError for a type that has no JSON form. Sets are written sorted, so that equal ones have
        equal bytes.

        Numbers of numpy are written as Python's.

        >>> import penstock as ps
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Order:
        ...     item: str
        ...     cents: int
        >>> ps.Serdes.json(Order).deserialize(b'{"item": "tea", "cents": 250}')
        Order(item='tea', cents=250)
        """
        return _JSON if kind is None else _typed(kind)

    @staticmethod
    def void() -> Serde[None]:
        """Always null."""
        return _VOID


_WHOLE = "an int from −2^{0} to 2^{0} − 1 is expected"
_EXPECTED: dict[str, tuple[tuple[type, ...], str]] = {
    "string": ((str,), "a str is expected"),
    "bytes": ((builtins.bytes,), "bytes are expected"),
    "short": ((), _WHOLE.format(15)),
    "integer": ((), _WHOLE.format(31)),
    "long": ((), _WHOLE.format(63)),
    "float": ((int, builtins.float), "a number is expected"),
    "double": ((int, builtins.float), "a number is expected"),
}


def why_refused(serde: Serde[Any], value: object, error: Exception) -> str:
    """Returns the reason why ``serde`` could not write ``value``: the serde, the value and its type, and the type that
    the serde takes. Raises ``error`` if that is a RetriableError, because then nothing was refused."""
    if isinstance(error, RetriableError):
        raise error
    why = str(error) if isinstance(error, SerializationError) else f"{type(error).__name__}: {error}"
    # Also if its writer is wrapped, as in the test driver.
    if serde.name in _EXPECTED and _BUILT_IN[serde.name].deserialize is serde.deserialize:
        right, expected = _EXPECTED[serde.name]
        if not isinstance(value, right):
            why = expected
    return f"the serde {serde.name} cannot write {shown_with_type(value)}: {why}"
