"""Spark's readers come in to Kafka as the application does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError
from penstock.pipeline.reading.kafka_options import reader_options

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
    (tmp_path / "ca.pem").write_text("")
    trust = {"ssl.ca.location": str(tmp_path / "ca.pem"), "ssl.endpoint.identification.algorithm": "none"}
    assert options({"security.protocol": "SSL", "ssl.key.password": "hidden", **trust, **pem}) == {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(tmp_path / "ca.pem"),
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
        ("sasl.oauthbearer.method", "oidc"),
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


def test_a_key_in_a_form_that_java_does_not_read_is_refused_with_the_command_that_changes_it(
    pem: dict[str, str],
) -> None:
    Path(pem["ssl.key.location"]).write_text("-----BEGIN RSA PRIVATE KEY-----")
    with pytest.raises(ConfigError, match="openssl pkcs8 -topk8"):
        options({"security.protocol": "SSL", **pem})
