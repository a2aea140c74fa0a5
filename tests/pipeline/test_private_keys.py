"""Keys in the older forms of PEM are read as PKCS#8 by Java, without a tool."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from penstock.common.errors import ConfigError
from penstock.pipeline.reading.private_keys import in_pkcs8

RSA = rsa.generate_private_key(65537, 2048)


def written(
    key: PrivateKeyTypes,
    form: serialization.PrivateFormat = serialization.PrivateFormat.TraditionalOpenSSL,
    encryption: serialization.KeySerializationEncryption | None = None,
) -> str:
    hidden = encryption or serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, hidden).decode()


@pytest.mark.parametrize(
    "key",
    [RSA, *(ec.generate_private_key(curve()) for curve in (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1))],
    ids=["rsa", "p256", "p384", "p521"],
)
def test_a_key_in_an_older_form_is_the_same_key(key: PrivateKeyTypes) -> None:
    old = written(key)
    assert "BEGIN PRIVATE KEY" not in old
    found = in_pkcs8(old.replace("\n", "\r\n"))
    assert found.startswith("-----BEGIN PRIVATE KEY-----\n")
    assert written(_read(found)) == old


def test_a_key_in_pkcs8_stays_as_it_is() -> None:
    hidden = serialization.BestAvailableEncryption(b"password")
    for key in (
        written(RSA, serialization.PrivateFormat.PKCS8),
        written(RSA, serialization.PrivateFormat.PKCS8, hidden),
    ):
        assert in_pkcs8(key) == key


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (written(RSA, encryption=serialization.BestAvailableEncryption(b"password")), "an encrypted key"),
        ("-----BEGIN CERTIFICATE-----", "no private key in PEM"),
    ],
    ids=["encrypted", "certificate"],
)
def test_a_key_that_cannot_be_converted_is_refused_with_the_command_that_does(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"{problem}.*openssl pkcs8 -topk8"):
        in_pkcs8(text)


@pytest.mark.parametrize("content", ["!!!!", "MAA=", "MIIB"])
def test_a_damaged_key_is_reported_as_such(content: str) -> None:
    with pytest.raises(ConfigError, match="the key is damaged"):
        in_pkcs8(f"-----BEGIN EC PRIVATE KEY-----\n{content}\n-----END EC PRIVATE KEY-----\n")


def _read(text: str) -> PrivateKeyTypes:
    return serialization.load_pem_private_key(text.encode(), None)
