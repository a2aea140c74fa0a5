"""Settings of the HTTP server: its address, its certificate, and the permissions of its clients.

They are read where an application is started, from its configuration, files and environment. The settings that are sent
to the server have no token, but only the hash of each.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError
from penstock.common.log import LogFormat

TOKENS_VARIABLE = "PENSTOCK_API_TOKENS"
_FORM = "lines of a scope, a token and perhaps a name, such as 'read 0123456789abcdef0123456789abcdef dashboard'"
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # characters allowed after "Bearer" (RFC 6750)
_SHORTEST = 16
_NAME = re.compile(r"[\w.@:-]{1,64}")
_CERTIFICATE = "application.server.ssl.certificate.location"
_KEY = "application.server.ssl.key.location"
_TOKENS = "application.server.tokens.location"


class Scope(StrEnum):
    """The permissions of a token: to look, or to change something too."""

    READ = "read"
    OPERATE = "operate"

    def allows(self, wanted: Scope) -> bool:
        """Returns True if this scope includes ``wanted``."""
        return self is Scope.OPERATE or wanted is Scope.READ


@dataclass(frozen=True)
class Token:
    """A known token. Tokens are long and random, so that their hash does not reveal them. ``name`` is the name of its
    owner in the log."""

    scope: Scope
    digest: bytes = field(repr=False)
    name: str = ""

    @classmethod
    def of(cls, scope: Scope, text: str, name: str = "") -> Token:
        """The part of ``text`` that is kept. Without a name it is called by the beginning of its hash."""
        digest = hashlib.sha256(text.encode()).digest()
        return cls(scope, digest, name or f"sha256:{digest.hex()[:8]}")


def token_of(tokens: Iterable[Token], presented: bytes) -> Token | None:
    """Returns the known token that equals ``presented``; None if there is none. The time that it takes does not depend
    on the token."""
    digest = hashlib.sha256(presented).digest()
    found: Token | None = None
    for token in tokens:
        if hmac.compare_digest(token.digest, digest) and (found is None or token.scope.allows(found.scope)):
            found = token
    return found


@dataclass(frozen=True)
class ServerSettings:
    """The address and the security of the server. Without ``tokens`` every client may do everything: :meth:`check`
    ensures that no other machine can reach it then."""

    host: str = "127.0.0.1"
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None
    tokens: tuple[Token, ...] = ()
    max_waiting_queries: int = 1000
    max_ranges_per_second: int = 100
    log_format: LogFormat = "text"

    @classmethod
    def of(cls, config: StreamsConfig, environment: Mapping[str, str] = os.environ) -> ServerSettings:
        """Returns the settings of ``config``, with the tokens of its file, else of the environment. Raises ConfigError
        for wrong or missing settings, and for files that cannot be read.
        """
        host, port = host_and_port(config.application_server)
        certificate = config.application_server_ssl_certificate_location
        key = config.application_server_ssl_key_location
        if (certificate is None) != (key is None):
            given, missing = (_CERTIFICATE, _KEY) if key is None else (_KEY, _CERTIFICATE)
            raise ConfigError(f"configuration key {given!r}: TLS needs {missing!r} as well")
        settings = cls(
            host,
            port,
            certificate,
            key,
            _tokens(config.application_server_tokens_location, environment),
            config.application_server_max_waiting_queries,
            config.application_server_max_ranges_per_second,
            config.log_format,
        )
        address = _literal(host)
        if address is not None:
            settings.check(address)
        return settings

    def check(self, address: str) -> None:
        """Raise ConfigError if other machines can reach ``address``, and there is no TLS or no token."""
        if ipaddress.ip_address(address.partition("%")[0]).is_loopback or (self.tokens and self.certificate):
            return
        missing = [] if self.certificate else [f"TLS ({_CERTIFICATE}, {_KEY})"]
        missing += [] if self.tokens else [f"tokens ({_TOKENS}, or the variable {TOKENS_VARIABLE})"]
        raise ConfigError(
            f"application.server: others can reach {self.host}, so penstock listens there with TLS and tokens only. "
            f"Missing: {' and '.join(missing)}; or listen on 127.0.0.1 (docs/SECURITY.md)"
        )


def host_and_port(application_server: str) -> tuple[str, int]:
    """Read ``application.server``: ``host:port``, an IPv6 host in brackets. Raises ConfigError."""
    host, _, port = application_server.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or int(port) > 65_535:
        raise ConfigError(
            f"configuration key 'application.server': {application_server!r} is not host:port, such as 127.0.0.1:8080 "
            "(port 0 takes a free one; empty: no HTTP)"
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def _literal(host: str) -> str | None:
    """``host`` if it is an address: names are looked up where the server listens."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return host


def _tokens(file: Path | None, environment: Mapping[str, str]) -> tuple[Token, ...]:
    if file is None:
        return _read(environment.get(TOKENS_VARIABLE, "").replace(",", "\n"), f"the variable {TOKENS_VARIABLE}")
    what = f"configuration key {_TOKENS!r}"
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{what}: cannot read {file}: {error}") from None
    found = _read(text, f"{what}: {file}")
    if not found:
        raise ConfigError(f"{what}: {file} has no token; it needs {_FORM}")
    return found


def _read(text: str, where: str) -> tuple[Token, ...]:
    found: dict[bytes, Token] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) not in (2, 3) or words[0] not in set(Scope) or not _NAME.fullmatch("".join(words[2:]) or "none"):
            raise ConfigError(
                f"{where}, line {number}: not a scope (read or operate), a token and perhaps a name of letters, digits "
                f"and .-_@:; needed are {_FORM}"
            )
        if len(words[1]) < _SHORTEST or not _TOKEN.fullmatch(words[1]):
            raise ConfigError(
                f"{where}, line {number}: a token has at least {_SHORTEST} characters, letters, digits and -._~+/ "
                "('openssl rand -hex 32' makes one)"
            )
        token = Token.of(Scope(words[0]), *words[1:])
        if token.digest in found:
            raise ConfigError(f"{where}, line {number}: the same token is on a line above")
        found[token.digest] = token
    return tuple(found.values())
