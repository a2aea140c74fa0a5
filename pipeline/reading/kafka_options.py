"""Security options of Spark's Kafka readers: librdkafka's settings, translated to those of Java's consumer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.common.config import StreamsConfig, is_security_key
from penstock.common.errors import ConfigError
from penstock.common.secrets import Entries
from penstock.pipeline.reading.java_logins import LOGIN_KEYS, TOKEN_URL, login_of
from penstock.pipeline.reading.private_keys import in_pkcs8

_MAPPED = frozenset(
    {*LOGIN_KEYS, "security.protocol", "ssl.ca.location", "ssl.ca.pem",
     "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location", "ssl.key.pem", "ssl.key.password",
     "ssl.keystore.location", "ssl.keystore.password", "ssl.endpoint.identification.algorithm"}
)  # fmt: skip


def reader_options(config: StreamsConfig) -> dict[str, str]:
    """Returns options with which Spark's Kafka reader connects as the application's consumers do.

    Raises ConfigError for a setting that cannot be translated for Java's consumer, and for a file that it cannot use.
    """
    given = {key: value for key, value in config.client_entries("consumer.").items() if is_security_key(key)}
    for key in given.keys() - _MAPPED:
        raise ConfigError(
            f"configuration key {key!r}: Spark reads history with Java's consumer, and penstock cannot translate "
            f"this setting for it; it can translate {', '.join(sorted(_MAPPED))}"
        )
    if not given:
        return {}
    java = {"security.protocol": str(given.get("security.protocol", "plaintext")).upper()}
    java |= login_of(given) | _trust(given) | _own_certificate(given)
    if (algorithm := given.get("ssl.endpoint.identification.algorithm")) is not None:
        java["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else str(algorithm)
    return Entries((f"kafka.{key}", value) for key, value in java.items())


def token_url(config: StreamsConfig) -> str | None:
    """Returns the URL at which Java's consumers get their tokens, if they do: ``spark_session`` has to allow it."""
    url = config.client_entries("consumer.").get(TOKEN_URL)
    return None if url is None else str(url)


def _trust(given: Mapping[str, Any]) -> dict[str, str]:
    pem = _pem(given, "ssl.ca")
    return {} if pem is None else {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": pem}


def _own_certificate(given: Mapping[str, Any]) -> dict[str, str]:
    if (place := given.get("ssl.keystore.location")) is not None:
        password = _of(given, "ssl.keystore.password")
        return {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": str(place)} | password
    certificate, key = _pem(given, "ssl.certificate"), _pem(given, "ssl.key")
    if certificate is None or key is None:
        return {}
    store = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": certificate,
        "ssl.keystore.key": in_pkcs8(key),
    }
    return store | _of(given, "ssl.key.password")


def _of(given: Mapping[str, Any], key: str) -> dict[str, str]:
    return {key: str(given[key])} if key in given else {}


def _pem(given: Mapping[str, Any], what: str) -> str | None:
    """Returns the text of a PEM, if there is one: executors on other machines do not have the file."""
    if (text := given.get(f"{what}.pem")) is not None:
        return str(text)
    if (place := given.get(f"{what}.location")) is None:
        return None
    try:
        return Path(str(place)).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"configuration key '{what}.location': cannot read {place}: {error}") from None
