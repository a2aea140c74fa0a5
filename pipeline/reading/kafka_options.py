"""Security options of Spark's Kafka readers: librdkafka's settings, translated to those of Java's consumer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.common.config import StreamsConfig, is_security_key
from penstock.common.errors import ConfigError
from penstock.common.secrets import Entries

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_MAPPED = frozenset(
    {"security.protocol", "sasl.mechanisms", "sasl.username", "sasl.password", "ssl.ca.location", "ssl.ca.pem",
     "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location", "ssl.key.pem", "ssl.key.password",
     "ssl.keystore.location", "ssl.keystore.password", "ssl.endpoint.identification.algorithm"}
)  # fmt: skip
_PKCS8 = ("BEGIN PRIVATE KEY", "BEGIN ENCRYPTED PRIVATE KEY")


def reader_options(config: StreamsConfig) -> dict[str, str]:
    """Returns options with which Spark's Kafka reader connects as the application's consumers do.

    Raises ConfigError for a setting that cannot be translated for Java's consumer, and for a file that it cannot use.
    """
    given = {key: value for key, value in config.client_entries("consumer.").items() if is_security_key(key)}
    for key in given.keys() - _MAPPED:
        raise ConfigError(
            f"configuration key {key!r}: Spark reads history with Java's consumer, and penstock cannot translate "
            f"this setting for it; a backfill supports {', '.join(sorted(_MAPPED))}"
        )
    if not given:
        return {}
    java = {"security.protocol": str(given.get("security.protocol", "plaintext")).upper()}
    java |= _login(given) | _trust(given) | _own_certificate(given)
    if (algorithm := given.get("ssl.endpoint.identification.algorithm")) is not None:
        java["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else str(algorithm)
    return Entries((f"kafka.{key}", value) for key, value in java.items())


def _login(given: Mapping[str, Any]) -> dict[str, str]:
    if (mechanism := given.get("sasl.mechanisms")) is None:
        return {}
    module = _LOGIN_MODULES.get(str(mechanism))
    if module is None:
        raise ConfigError(
            f"configuration key 'sasl.mechanism': a backfill supports {', '.join(_LOGIN_MODULES)}, not {mechanism!r}"
        )
    user, password = (_quoted(given.get(f"sasl.{name}", "")) for name in ("username", "password"))
    return {
        "sasl.mechanism": str(mechanism),
        "sasl.jaas.config": f"{module} required username={user} password={password};",
    }


def _quoted(value: object) -> str:
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _trust(given: Mapping[str, Any]) -> dict[str, str]:
    if (pem := given.get("ssl.ca.pem")) is not None:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": str(pem)}
    if (place := given.get("ssl.ca.location")) is None:
        return {}
    if not Path(str(place)).is_file():
        raise ConfigError(
            f"configuration key 'ssl.ca.location': Spark's reader needs a PEM file, and there is no file {place} here"
        )
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(place)}


def _own_certificate(given: Mapping[str, Any]) -> dict[str, str]:
    if (place := given.get("ssl.keystore.location")) is not None:
        password = _of(given, "ssl.keystore.password")
        return {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": str(place)} | password
    certificate, key = _pem(given, "ssl.certificate"), _pem(given, "ssl.key")
    if certificate is None or key is None:
        return {}
    if not any(kind in key for kind in _PKCS8):
        raise ConfigError(
            "configuration key 'ssl.key.location': Java reads keys in PKCS#8 alone ('BEGIN PRIVATE KEY'): "
            "openssl pkcs8 -topk8 -in KEY -out NEW writes one"
        )
    store = {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": certificate, "ssl.keystore.key": key}
    return store | _of(given, "ssl.key.password")


def _of(given: Mapping[str, Any], key: str) -> dict[str, str]:
    return {key: str(given[key])} if key in given else {}


def _pem(given: Mapping[str, Any], what: str) -> str | None:
    """Returns the text of a PEM, if there is one: Java wants key and certificate in one file, so they are read here."""
    if (text := given.get(f"{what}.pem")) is not None:
        return str(text)
    if (place := given.get(f"{what}.location")) is None:
        return None
    try:
        return Path(str(place)).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"configuration key '{what}.location': cannot read {place}: {error}") from None
