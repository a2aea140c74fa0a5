"""Asks a broker for the version of its software, and the brokers for their addresses: for diagnosis.

librdkafka does not report a broker's features. This asks by ``ApiVersions`` over a plain connection: a broker that
demands TLS or a password is not asked.
"""

from __future__ import annotations

import socket
from contextlib import closing
from struct import Struct

_API_VERSIONS, _VERSION = 18, 3
_HEADER = Struct(">hhi")
_API = Struct(">hhh")
_RANGE = Struct(">hh")
_INT = Struct(">i")
_LARGEST = 1 << 20
_FEATURE = "metadata.version"
_RELEASES = (
    (7, "3.3"), (8, "3.4"), (11, "3.5"), (14, "3.6"), (19, "3.7"), (20, "3.8"), (21, "3.9"), (25, "4.0"), (27, "4.1"),
    (29, "4.2"),
)  # fmt: skip
"""The highest level of ``metadata.version`` that each release of Kafka has."""


def kafka_release(host: str, port: int, timeout_s: float) -> str | None:
    """Returns the release of a broker's software, such as ``4.1``, or ``4.2 or later``; None if its answer does not
    show it. Raises OSError, and ValueError for an answer that is none."""
    with closing(socket.create_connection((host, port), timeout_s)) as connection:
        connection.settimeout(timeout_s)
        connection.sendall(_request())
        level = _level(_answer(connection))
    if level is None:
        return None
    known = next((release for highest, release in _RELEASES if level <= highest), None)
    return known if known is not None else f"{_RELEASES[-1][1]} or later"


def _request() -> bytes:
    name = b"penstock"
    header = _HEADER.pack(_API_VERSIONS, _VERSION, 1) + len(name).to_bytes(2, "big") + name + b"\0"
    compact = bytes([len(name) + 1]) + name
    body = header + compact + b"\x020" + b"\0"
    return _INT.pack(len(body)) + body


def _answer(connection: socket.socket) -> bytes:
    (size,) = _INT.unpack(_read(connection, _INT.size))
    if not 0 < size < _LARGEST:
        raise ValueError("it does not answer as a broker without TLS does")
    return _read(connection, size)


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ValueError("it closes the connection: it may demand TLS or a password")
        data += part
    return data


def _level(answer: bytes) -> int | None:
    """Returns the highest level of the feature that the broker's software supports."""
    at = _INT.size + 2  # the number of the request, the error
    count, at = _unsigned(answer, at)
    for _ in range(count - 1):
        at = _skip_tags(answer, at + _API.size)
    at += _INT.size  # throttle time
    tags, at = _unsigned(answer, at)
    for _ in range(tags):
        tag, at = _unsigned(answer, at)
        size, at = _unsigned(answer, at)
        if tag == 0:
            return _feature(answer, at)
        at += size
    return None


def _feature(answer: bytes, at: int) -> int | None:
    count, at = _unsigned(answer, at)
    for _ in range(count - 1):
        length, at = _unsigned(answer, at)
        name, at = answer[at : at + length - 1].decode(), at + length - 1
        _, highest = _RANGE.unpack_from(answer, at)
        at = _skip_tags(answer, at + _RANGE.size)
        if name == _FEATURE:
            return int(highest)
    return None


def _skip_tags(data: bytes, at: int) -> int:
    count, at = _unsigned(data, at)
    for _ in range(count):
        _, at = _unsigned(data, at)
        size, at = _unsigned(data, at)
        at += size
    return at


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    """Returns an unsigned number of variable length, and the index after it."""
    found = shift = 0
    while True:
        byte = data[at]
        found |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return found, at
