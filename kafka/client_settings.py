"""A user's settings for Kafka's clients, checked against librdkafka's own table before any client is made.

librdkafka is asked through its C interface. confluent-kafka has no call that checks a setting without making a client,
and a client opens files and connections that exist only where the application will run.
"""

from __future__ import annotations

import ctypes
import difflib
import re
from collections.abc import Mapping
from functools import cache

from confluent_kafka import cimpl

from penstock.common.errors import ConfigError
from penstock.common.secrets import shown_value, without_secrets

_OK, _UNKNOWN = 0, -2
_TEXT_BYTES = 512
_LEADING_DIGITS = re.compile(r"\s*[-+]?\d+")
_SCOPES = {"consumer.": "C", "producer.": "P"}
_PEM_STORE = (
    "librdkafka reads no Java key stores: 'ssl.ca.location' names a PEM file with the certificates to trust, "
    "'ssl.certificate.location' and 'ssl.key.location' the client's own (or 'ssl.keystore.location' a PKCS#12 file)"
)
_JAVAS_WORDS = {
    "sasl.jaas.config": "librdkafka has no JAAS: set 'sasl.mechanism', 'sasl.username' and 'sasl.password'",
    "ssl.truststore.location": _PEM_STORE,
    "ssl.truststore.password": _PEM_STORE,
    "ssl.truststore.type": _PEM_STORE,
    "ssl.truststore.certificates": "librdkafka calls it 'ssl.ca.pem'",
    "ssl.keystore.type": _PEM_STORE,
    "ssl.keystore.key": "librdkafka calls it 'ssl.key.pem'",
    "ssl.keystore.certificate.chain": "librdkafka calls it 'ssl.certificate.pem'",
    "sasl.kerberos.kinit.cmd.path": "librdkafka calls it 'sasl.kerberos.kinit.cmd'",
}
"""Security settings of Kafka Streams that librdkafka does not know, and what to set instead."""


def check_client_settings(prefix: str, overrides: Mapping[str, object]) -> None:
    """Raise ConfigError when librdkafka does not know a name, or refuses its value. ``prefix``: of the keys.

    Callbacks and other objects belong to confluent-kafka, which checks them when the client is made.
    """
    library = _library() if overrides else None
    if library is None:
        return
    for name, value in overrides.items():
        if value is None or isinstance(value, str | int | float):
            library.check(prefix, name, value)


class _Library:
    """The part of librdkafka that reads settings."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        library.rd_kafka_conf_new.restype = ctypes.c_void_p
        library.rd_kafka_conf_destroy.argtypes = [ctypes.c_void_p]
        library.rd_kafka_conf_set.argtypes = [ctypes.c_void_p, *[ctypes.c_char_p] * 3, ctypes.c_size_t]
        library.rd_kafka_conf_get.argtypes = [ctypes.c_void_p, *[ctypes.c_char_p] * 2, ctypes.c_void_p]
        library.rd_kafka_conf_properties_show.argtypes = [ctypes.c_void_p]
        self._scopes = self._read_scopes()

    def check(self, prefix: str, name: str, value: str | float | None) -> None:
        conf = ctypes.c_void_p(self._library.rd_kafka_conf_new())
        try:
            self._check(conf, prefix, name, value)
        finally:
            self._library.rd_kafka_conf_destroy(conf)

    def _check(self, conf: ctypes.c_void_p, prefix: str, name: str, value: str | float | None) -> None:
        key = prefix + name
        if name in _JAVAS_WORDS:
            raise ConfigError(f"configuration key {key!r} is for Java's clients: {_JAVAS_WORDS[name]}")
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        given = None if value is None else str(value).encode()
        found = self._library.rd_kafka_conf_set(conf, name.encode(), given, text, _TEXT_BYTES)
        if found == _UNKNOWN:
            near = difflib.get_close_matches(name, self._scopes, n=1, cutoff=0.6)
            hint = f"; did you mean {prefix + near[0]!r}?" if near else ": the names are librdkafka's"
            raise ConfigError(f"unknown configuration key {key!r}{hint}")
        if found != _OK:
            message = without_secrets(text.value.decode().strip(), {key: value})
            raise ConfigError(f"configuration key {key!r}: {message} (got {shown_value(key, value)})")
        if isinstance(value, str | float) and self._cut(conf, name, str(value)):
            raise ConfigError(f"configuration key {key!r}: a whole number is expected (got {shown_value(key, value)})")
        scope, wanted = self._scopes.get(name, "*"), _SCOPES.get(prefix, "*")
        if "*" not in (scope, wanted) and scope != wanted:
            other = next(each for each, letter in _SCOPES.items() if letter == scope)
            raise ConfigError(f"configuration key {key!r}: librdkafka has this for the other client: {other + name!r}")

    def _cut(self, conf: ctypes.c_void_p, name: str, given: str) -> bool:
        """Returns True if librdkafka read only the first digits of ``given``: it reads "2x" and 2.5 as 2."""
        digits = _LEADING_DIGITS.match(given)
        if digits is None or self._read(conf, name) != str(int(digits[0])):
            return False
        try:
            return float(given) != int(digits[0])
        except ValueError:
            return True

    def _read(self, conf: ctypes.c_void_p, name: str) -> str | None:
        text, size = ctypes.create_string_buffer(_TEXT_BYTES), ctypes.c_size_t(_TEXT_BYTES)
        found = self._library.rd_kafka_conf_get(conf, name.encode(), text, ctypes.byref(size))
        return text.value.decode() if found == _OK else None

    def _read_scopes(self) -> dict[str, str]:
        """Returns the scope of every name, from librdkafka's table: ``C`` consumers, ``P`` producers, ``*`` both."""
        libc = ctypes.CDLL(None)
        libc.open_memstream.restype = ctypes.c_void_p
        libc.fclose.argtypes = libc.free.argtypes = [ctypes.c_void_p]
        text, size = ctypes.c_void_p(), ctypes.c_size_t()
        stream = libc.open_memstream(ctypes.byref(text), ctypes.byref(size))
        self._library.rd_kafka_conf_properties_show(stream)
        libc.fclose(stream)
        try:
            table = ctypes.string_at(text.value or 0, size.value).decode()
        finally:
            libc.free(text)
        rows = [[cell.strip() for cell in line.split("|")] for line in table.splitlines()]
        scopes: dict[str, str] = {}
        for row in rows:
            if len(row) > 2 and row[1] in ("C", "P", "*"):
                # A name in both tables, that of clients and that of topics, is for both clients if the tables differ.
                scopes[row[0]] = row[1] if scopes.get(row[0], row[1]) == row[1] else "*"
        return scopes


@cache
def _library() -> _Library | None:
    """Returns None if the C interface is not available. Then the clients refuse wrong settings when they are made."""
    try:
        return _Library(ctypes.CDLL(cimpl.__file__))
    except (OSError, AttributeError):
        return None
