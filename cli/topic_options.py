"""The common parts of the commands that name topics and serdes: options, and the conversion between text and keys or
values."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from penstock.cli.loading import load_object
from penstock.common.errors import ConfigError
from penstock.common.serdes import Serde, Serdes

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="The name of the topic")]


class SerdeName(StrEnum):
    """The serdes that come with penstock and write something, under their names in :class:`Serdes`."""

    STRING = "string"
    BYTES = "bytes"
    SHORT = "short"
    INTEGER = "integer"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    UUID = "uuid"
    JSON = "json"

    @property
    def serde(self) -> Serde[Any]:
        """The serde itself."""
        made: Serde[Any] = getattr(Serdes, self.value)()
        return made


def serde_of(option: str, text: str, settings: Mapping[str, Any] | None = None) -> Serde[Any]:
    """Returns the serde of a name, or the one that MODULE:SERDE names, with the ``settings`` of a schema registry.
    Raises ConfigError."""
    if text in list(SerdeName):
        return SerdeName(text).serde
    if ":" not in text:
        raise ConfigError(f"{option} {text!r} is none of {', '.join(SerdeName)}, and no MODULE:SERDE")
    found = load_object(option, text)
    if not isinstance(found, Serde):
        raise ConfigError(f"{option} {text} is a {type(found).__name__}, not a penstock.Serde")
    return found.configure(settings) if settings else found


KeySerde = Annotated[SerdeName, typer.Option("--key", help="The serde of keys")]
ValueSerde = Annotated[SerdeName, typer.Option("--value", help="The serde of values")]


def bytes_of_text(name: SerdeName, text: str, what: str) -> bytes:
    """Returns ``text`` as the serde writes it. Raises ConfigError saying that ``what`` cannot be read."""
    serde = name.serde
    assert serde.from_text is not None  # every one of SerdeName has it
    try:
        return serde.serialize(serde.from_text(text))
    except Exception as error:  # whatever a serde raises
        raise ConfigError(f"{what} {text!r} is no {name.value}: {error}") from error


def bytes_of_line(name: SerdeName, line: bytes, what: str) -> bytes:
    """Returns the text of ``line`` as the serde writes it, or for bytes the line itself. Raises ConfigError as
    :func:`bytes_of_text` does, and for a line that is no text."""
    if name is SerdeName.BYTES:
        return line
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{what} {line!r} is not valid UTF-8 ({error}): use the serde bytes for binary data"
        ) from error
    return bytes_of_text(name, text, what)


def bytes_of_json(name: SerdeName, value: Any, what: str) -> bytes | None:
    """Returns the bytes of a ``value`` as ``penstock topic read --json`` shows it: bytes are base64, UUIDs are text."""
    if value is None and name is not SerdeName.JSON:
        return None
    try:
        if name is SerdeName.BYTES:
            return base64.b64decode(value, validate=True)
        if name is SerdeName.UUID:
            return bytes_of_text(name, value, what)
        return name.serde.serialize(value)
    except ConfigError:
        raise
    except Exception as error:  # whatever a serde raises
        raise ConfigError(f"{what} {value!r} is no {name.value}: {error}") from error


def pair(option: str, text: str, form: str) -> tuple[str, str]:
    """Returns the two sides of an option such as ``--config KEY=VALUE``. Raises ConfigError for another ``form``."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ConfigError(f"{option} {text!r} is not {form}")
    return name, value
