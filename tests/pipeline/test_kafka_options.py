"""Spark's readers come in to Kafka as the application does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError
from penstock.pipeline.reading.inline_certificates import files_on_every_machine, with_inline_certificates
from penstock.pipeline.reading.kafka_options import reader_options, token_url

LOGIN = {"sasl.username": "alice", "sasl.password": 'a"b\\c'}


def options(entries: dict[str, Any]) -> dict[str, str]:
    return reader_options(StreamsConfig.of({"application.id": "app", **entries}))


@pytest.fixture
def pem(tmp_path: Path) -> dict[str, str]:
    """A client's certificate and key, by their names in librdkafka."""
    (tmp_path / "own.crt").write_text("-----BEGIN CERTIFICATE-----")
    (tmp_path / "own.key").write_text("-----BEGIN PRIVATE KEY-----")
    return {"ssl.certificate.location": str(tmp_path / "own.crt"), "ssl.key.location": str(tmp_path / "own.key")}


def test_without_security_there_are_none() -> None:
    assert options({"producer.sasl.username": "alice"}) == {}


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-256", "scram.ScramLoginModule"),
     ("SCRAM-SHA-512", "scram.ScramLoginModule")],
)  # fmt: skip
def test_a_login_becomes_a_login_module_of_java(mechanism: str, module: str) -> None:
    found = options({"security.protocol": "sasl_plaintext", "sasl.mechanism": mechanism, **LOGIN})
    assert found == {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.jaas.config": f"org.apache.kafka.common.security.{module} required "
        'username="alice" password="a\\"b\\\\c";',
    }
    assert "a\\" not in repr(found)


def test_the_consumers_own_settings_come_before_those_for_all() -> None:
    found = options({"security.protocol": "SSL", "consumer.security.protocol": "PLAINTEXT"})
    assert found == {"kafka.security.protocol": "PLAINTEXT"}


def test_pem_files_become_key_stores(pem: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\nauthority")
    trust = {"ssl.ca.location": str(tmp_path / "ca.pem"), "ssl.endpoint.identification.algorithm": "none"}
    assert options({"security.protocol": "SSL", "ssl.key.password": "hidden", **trust, **pem}) == {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----\nauthority",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": "-----BEGIN CERTIFICATE-----",
        "kafka.ssl.keystore.key": "-----BEGIN PRIVATE KEY-----",
        "kafka.ssl.key.password": "hidden",
        "kafka.ssl.endpoint.identification.algorithm": "",
    }


def test_a_store_in_pkcs12_stays_one() -> None:
    found = options(
        {"security.protocol": "SSL", "ssl.keystore.location": "/own.p12", "ssl.keystore.password": "hidden"}
    )
    assert found == {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.keystore.type": "PKCS12",
        "kafka.ssl.keystore.location": "/own.p12",
        "kafka.ssl.keystore.password": "hidden",
    }


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sasl.oauthbearer.assertion.file", "/alice.jwt"),
        ("ssl.cipher.suites", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("enable.ssl.certificate.verification", False),
        ("sasl.kerberos.keytab", "/alice.keytab"),
        ("sasl.mechanism", "GSSAPI"),
        ("ssl.ca.location", "/certificates/nowhere.pem"),
    ],
)
def test_a_setting_that_spark_cannot_take_is_refused_by_its_name(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"configuration key '{key}'"):
        options({"security.protocol": "SASL_SSL", key: value})


OIDC = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "alice",
    "sasl.oauthbearer.client.secret": 'a"b',
    "sasl.oauthbearer.scope": "kafka",
    "sasl.oauthbearer.extensions": "logicalCluster=lkc-1",
    "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
}


def test_a_login_by_oidc_becomes_the_handler_of_java() -> None:
    found = options(OIDC)
    assert found == {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
        "kafka.sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer."
        "OAuthBearerLoginCallbackHandler",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'clientId="alice" clientSecret="a\\"b" scope="kafka" extension_logicalCluster="lkc-1";',
    }
    assert 'a\\"b' not in repr(found)
    assert token_url(StreamsConfig.of({"application.id": "app", **OIDC})) == "http://127.0.0.1:1/token"


def test_a_token_that_nobody_signs_has_its_principal() -> None:
    unsecured = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "principal=alice scope=kafka",
    }
    assert options(unsecured)["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="alice";'
    )


@pytest.mark.parametrize(
    ("missing", "named"),
    [("sasl.oauthbearer.token.endpoint.url", "token.endpoint.url"), ("sasl.oauthbearer.method", "oauth_cb")],
)
def test_tokens_of_which_java_does_not_know_where_they_come_from_are_refused(missing: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        options({key: value for key, value in OIDC.items() if key != missing})


def test_files_that_only_the_driver_has_become_text(pem: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("authority")
    folder = {"producer.ssl.ca.location": str(tmp_path), "consumer.ssl.ca.location": str(tmp_path / "ca.pem")}
    config = StreamsConfig.of({"application.id": "app", "security.protocol": "SSL", **pem, **folder})
    found = with_inline_certificates(config)
    assert dict(found.clients) == {
        "security.protocol": "SSL",
        "ssl.certificate.pem": "-----BEGIN CERTIFICATE-----",
        "ssl.key.pem": "-----BEGIN PRIVATE KEY-----",
        "consumer.ssl.ca.pem": "authority",
        "producer.ssl.ca.location": str(tmp_path),
    }
    assert "PRIVATE KEY" not in repr(found.clients)
    assert files_on_every_machine(found) == [str(tmp_path)]
