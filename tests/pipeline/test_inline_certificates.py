"""Certificates reach executors that do not have the driver's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.common.config import StreamsConfig
from penstock.pipeline.reading.inline_certificates import with_inline_certificates


@pytest.fixture
def pem(tmp_path: Path) -> dict[str, str]:
    """A client's certificate and key, by their names in librdkafka."""
    (tmp_path / "own.crt").write_text("-----BEGIN CERTIFICATE-----")
    (tmp_path / "own.key").write_text("-----BEGIN PRIVATE KEY-----")
    return {"ssl.certificate.location": str(tmp_path / "own.crt"), "ssl.key.location": str(tmp_path / "own.key")}


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
