"""Shows single dead letters: for people as text, for programs as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from penstock.api.encoding import to_json
from penstock.cli.output import shown
from penstock.cluster.dead_letters.letters import Letter
from penstock.cluster.dead_letters.notes import PastReplay
from penstock.common.dead_letters import own_headers
from penstock.common.records import Headers
from penstock.common.serdes import Serde
from penstock.common.written_times import moment

if TYPE_CHECKING:
    from penstock.cluster.topic_reading.topic_serdes import TopicSerdes

SerdesOf: TypeAlias = "Callable[[str], TopicSerdes]"
"""Returns the serdes of a source topic."""
_HEX_LINE = 16
_MOST_HEX = 4096
"""Bytes that are shown of data that is no text."""
_INDENT = " " * 12


def text_of(topic: str, letter: Letter, replays: Sequence[PastReplay], serdes: SerdesOf | None) -> str:
    """Returns a letter as text of several lines. ``serdes``: decodes key and value, too."""
    parts = [(f"{topic} {letter.place}", "")]
    parts += [("time", moment(letter.timestamp)), *_error_parts(letter)]
    parts += [("replayed", f"to {each.to or letter.source} at {moment(each.at)} or before") for each in replays]
    if (before := letter.replayed) is not None:
        place = f"{before.topic} {before.partition}@{before.offset}"
        parts.append(("again", f"replayed from {place} (replay number {before.count}), and failed again"))
    parts += [("key", shown_bytes(letter.key)), ("value", shown_bytes(letter.value))]
    if serdes is not None:
        parts += [(f"{part}, decoded", text) for part, text in _decoded(letter, serdes).items()]
    parts += [("header", f"{name} = {shown_bytes(data)}") for name, data in own_headers(letter.headers)]
    if letter.error is not None and letter.error.stacktrace:
        parts.append(("trace", letter.error.stacktrace.rstrip()))
    first, *rest = parts
    return "\n".join([first[0], *(_part(name, text) for name, text in rest)]) + "\n"


def _error_parts(letter: Letter) -> Iterator[tuple[str, str]]:
    error = letter.error
    if error is None:
        yield "error", "no error headers: another program wrote this record"
        return
    if error.topic is None:
        yield "from", "no source record"
    else:
        yield "from", f"{error.topic}, partition {_or_unknown(error.partition)}, offset {_or_unknown(error.offset)}"
    yield "error", error.exception if error.message is None else f"{error.exception}: {error.message}"


def _or_unknown(number: int | None) -> str:
    return "unknown" if number is None else str(number)


def _part(name: str, text: str) -> str:
    lines = text.splitlines() or [""]
    label = f"  {name}"
    first = f"{label:<{len(_INDENT)}}" if len(label) < len(_INDENT) else f"{label}\n{_INDENT}"
    return "\n".join([first + lines[0], *(_INDENT + line for line in lines[1:])])


def shown_bytes(data: bytes | None) -> str:
    """Returns bytes as text: JSON over several lines, other text as it is, and bytes that are no text as hexadecimal
    numbers. A null is ``(null)``, which is not the text ``null``."""
    if data is None:
        return "(null)"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return hex_dump(data)
    if text[:1] in ("{", "["):
        try:
            return msgspec.json.format(data, indent=2).decode()
        except msgspec.DecodeError:
            return text
    return text if all(each.isprintable() or each in "\n\t" for each in text) else hex_dump(data)


def hex_dump(data: bytes) -> str:
    """Returns lines of an offset, 16 bytes as hexadecimal numbers, and the same as text; at most 4 KiB."""
    lines = []
    for start in range(0, min(len(data), _MOST_HEX), _HEX_LINE):
        part = data[start : start + _HEX_LINE]
        text = "".join(chr(each) if 0x20 <= each < 0x7F else "." for each in part)
        lines.append(f"{start:04x}  {part.hex(' '):<{3 * _HEX_LINE - 1}}  {text}")
    if len(data) > _MOST_HEX:
        lines.append(f"… {len(data) - _MOST_HEX:,} more bytes: --json has all")
    return "\n".join(lines)


def _decoded(letter: Letter, serdes: SerdesOf) -> dict[str, str]:
    if letter.source is None:
        return {}
    of_topic = serdes(letter.source)
    return {
        part: _shown_decoded(serde, data)
        for part, serde, data in (("key", of_topic.key, letter.key), ("value", of_topic.value, letter.value))
        if data is not None
    }


def _shown_decoded(serde: Serde[Any], data: bytes) -> str:
    try:
        text = shown(serde.deserialize(data))
    except Exception as error:  # a serde may raise anything: its error may be the reason for the letter
        return f"{type(error).__name__} of {serde.name}: {error}"
    return shown_bytes(text.encode())


def json_of(topic: str, letter: Letter, replays: Sequence[PastReplay], serdes: SerdesOf | None) -> str:
    """Returns a letter as one line of JSON. Keys, values and headers are base64, and beside it text if they are."""
    error, before = letter.error, letter.replayed
    body = {
        "topic": topic, "partition": letter.partition, "offset": letter.offset, "timestamp": letter.timestamp,
        "source": error and {"topic": error.topic, "partition": error.partition, "offset": error.offset},
        "error": error
        and {"exception": error.exception, "message": error.message, "stacktrace": error.stacktrace},
        "key": _bytes_json(letter.key), "value": _bytes_json(letter.value),
        "headers": _headers_json(own_headers(letter.headers)),
        "replayed": [{"to": each.to or letter.source, "at": each.at} for each in replays],
        "replayed_from": before and msgspec.to_builtins(before),
    }  # fmt: skip
    if serdes is not None:
        body["decoded"] = _decoded_json(letter, serdes)
    return to_json(body).decode()


def _bytes_json(data: bytes | None) -> dict[str, Any] | None:
    if data is None:
        return None
    try:
        return {"base64": data, "text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": data}


def _headers_json(headers: Headers) -> list[list[Any]]:
    return [[name, _bytes_json(data)] for name, data in headers]


def _decoded_json(letter: Letter, serdes: SerdesOf) -> dict[str, Any]:
    if letter.source is None:
        return {}
    of_topic, decoded = serdes(letter.source), {}
    for part, serde, data in (("key", of_topic.key, letter.key), ("value", of_topic.value, letter.value)):
        try:
            decoded[part] = None if data is None else serde.deserialize(data)
        except Exception as error:  # whatever a serde raises
            decoded[f"{part}_error"] = f"{type(error).__name__}: {error}"
    return decoded
