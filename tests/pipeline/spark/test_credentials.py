"""Spark's workers log in to Kafka as live clients do, and Spark shows none of their secrets."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from penstock.common.config import StreamsConfig
from penstock.common.secrets import is_secret
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from tests.security.broker import SecuredBroker

READER = """
import json
import sys
from pathlib import Path
from penstock.common.config import StreamsConfig
from penstock.common.ids import TopicPartition
from penstock.kafka.clients import ConfluentClients
from penstock.pipeline.reading.frames import frame_of
from penstock.pipeline.reading.inline_certificates import with_inline_certificates
from penstock.pipeline.reading.kafka_history import KafkaHistory
from penstock.pipeline.spark.place import SparkPlace
from penstock.pipeline.spark.spark_session import spark_session

topic, log, entries = sys.argv[1], sys.argv[2], json.load(sys.stdin)
config = with_inline_certificates(StreamsConfig.of(entries))
for key, place in entries.items():
    if key.endswith(".location"):
        Path(place).unlink()  # as on another machine
conf = {"spark.eventLog.enabled": "true", "spark.eventLog.compress": "false"}
conf |= {"spark.eventLog.dir": log, "spark.log.level": "INFO"}
history = KafkaHistory(ConfluentClients.of(config))
ranges = history.available([TopicPartition(topic, 0)])
with spark_session(SparkPlace("local[1]", conf), "reader") as spark:
    rows = frame_of(spark, history, ranges)
    rows.explain("extended")
    print("READ", [bytes(row["value"]).decode() for row in rows.collect()])
"""


@pytest.mark.parametrize("place", ["scram", "tls", "mutual", "oauth"])
@pytest.mark.long
def test_history_is_read_from_a_broker_that_demands_it_and_no_secret_is_shown(
    place: str, secured: SecuredBroker, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    topic, log = topic_name("history"), tmp_path / "events"
    log.mkdir()
    entries = getattr(secured, place).config()
    clients = ConfluentClients.of(StreamsConfig.of(entries))
    clients.admin().create_topics([NewTopic(topic, 1)])
    with closing(clients.producer()) as producer:
        producer.send(topic, b"k", b"v", 1)
        assert producer.flush(60)
    given = with_own_files(entries, tmp_path)
    secrets = {str(value) for key, value in entries.items() if is_secret(key)}
    secrets |= {lines for key in given if key == "ssl.key.location" for lines in key_lines(Path(given[key]))}
    done = subprocess.run(
        [sys.executable, "-c", READER, topic, str(log)], input=json.dumps(given), capture_output=True, text=True
    )
    assert "READ ['v']" in done.stdout, done.stderr
    shown = done.stdout + done.stderr + "".join(file.read_text() for file in log.rglob("*") if file.is_file())
    assert "SparkListenerSQLExecutionStart" in shown
    assert secrets
    assert [secret for secret in secrets if secret in shown] == []


def with_own_files(entries: dict[str, str], folder: Path) -> dict[str, str]:
    """Returns the entries with copies of their files that may be deleted; the key is in its older form."""
    found = dict(entries)
    for key in [key for key in entries if key.endswith(".location")]:
        content = Path(entries[key]).read_bytes()
        if key == "ssl.key.location":
            private = serialization.load_pem_private_key(content, None)
            older = serialization.PrivateFormat.TraditionalOpenSSL
            content = private.private_bytes(serialization.Encoding.PEM, older, serialization.NoEncryption())
            assert b"BEGIN EC PRIVATE KEY" in content
        copy = folder / key
        copy.write_bytes(content)
        found[key] = str(copy)
    return found


def key_lines(file: Path) -> list[str]:
    """Returns the lines of a key that both of its forms have."""
    key = serialization.load_pem_private_key(file.read_bytes(), None)
    newer = serialization.PrivateFormat.PKCS8
    text = key.private_bytes(serialization.Encoding.PEM, newer, serialization.NoEncryption()).decode()
    return [line for line in text.splitlines() if not line.startswith("-")]
