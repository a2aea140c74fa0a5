"""Logins of Java's Kafka clients, from librdkafka's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.common.errors import ConfigError

_JAVA = "org.apache.kafka.common.security"
_PASSWORDS = {
    "PLAIN": f"{_JAVA}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_JAVA}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_JAVA}.scram.ScramLoginModule",
}
_OAUTH = "OAUTHBEARER"
_OAUTH_LOGIN = f"{_JAVA}.oauthbearer.OAuthBearerLoginModule"
_OAUTH_HANDLER = f"{_JAVA}.oauthbearer.OAuthBearerLoginCallbackHandler"
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
LOGIN_KEYS = frozenset(
    {"sasl.mechanisms", "sasl.username", "sasl.password", "sasl.oauthbearer.method", "sasl.oauthbearer.client.id",
     "sasl.oauthbearer.client.secret", "sasl.oauthbearer.scope", "sasl.oauthbearer.extensions", TOKEN_URL,
     "sasl.oauthbearer.config", "enable.sasl.oauthbearer.unsecure.jwt"}
)  # fmt: skip
"""The settings of librdkafka that :func:`login_of` translates."""


def login_of(given: Mapping[str, Any]) -> dict[str, str]:
    """Returns Java's settings for the login of ``given``; none if it has no mechanism. Raises ConfigError for a login
    that cannot be translated."""
    if (mechanism := given.get("sasl.mechanisms")) is None:
        return {}
    if mechanism == _OAUTH:
        return _bearer(given)
    module = _PASSWORDS.get(str(mechanism))
    if module is None:
        raise ConfigError(
            f"configuration key 'sasl.mechanism': Spark's readers support {', '.join([*_PASSWORDS, _OAUTH])}, "
            f"not {mechanism!r}"
        )
    user, password = (str(given.get(f"sasl.{name}", "")) for name in ("username", "password"))
    return {"sasl.mechanism": str(mechanism), "sasl.jaas.config": _entry(module, username=user, password=password)}


def _bearer(given: Mapping[str, Any]) -> dict[str, str]:
    if given.get("sasl.oauthbearer.method") != "oidc":
        return _unsecured(given)
    if (url := given.get(TOKEN_URL)) is None:
        raise ConfigError(f"configuration key '{TOKEN_URL}': OAUTHBEARER by OIDC needs it")
    extensions = (
        part.split("=", 1) for part in str(given.get("sasl.oauthbearer.extensions", "")).split(",") if "=" in part
    )
    options = {
        "clientId": given.get("sasl.oauthbearer.client.id"),
        "clientSecret": given.get("sasl.oauthbearer.client.secret"),
        "scope": given.get("sasl.oauthbearer.scope"),
        **{f"extension_{name.strip()}": value for name, value in extensions},
    }
    return {
        "sasl.mechanism": _OAUTH,
        "sasl.oauthbearer.token.endpoint.url": str(url),
        "sasl.login.callback.handler.class": _OAUTH_HANDLER,
        "sasl.jaas.config": _entry(_OAUTH_LOGIN, **{key: str(it) for key, it in options.items() if it is not None}),
    }


def _unsecured(given: Mapping[str, Any]) -> dict[str, str]:
    """The login of a development broker, whose tokens nobody signs: ``sasl.oauthbearer.config`` names the principal."""
    if str(given.get("enable.sasl.oauthbearer.unsecure.jwt", "false")).lower() != "true":
        raise ConfigError(
            "configuration key 'sasl.oauthbearer.method': Spark's readers get tokens by 'oidc'; a function that "
            "returns tokens (oauth_cb) cannot be translated for Java's consumer"
        )
    parts = dict(part.split("=", 1) for part in str(given.get("sasl.oauthbearer.config", "")).split() if "=" in part)
    claims = {f"unsecuredLoginStringClaim_{parts.get('principalClaimName', 'sub')}": parts.get("principal", "")}
    return {"sasl.mechanism": _OAUTH, "sasl.jaas.config": _entry(_OAUTH_LOGIN, **claims)}


def _entry(module: str, **options: str) -> str:
    return " ".join([module, "required", *(f"{name}={_quoted(value)}" for name, value in options.items())]) + ";"


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
