"""The words in which a value of the wrong kind is refused."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as ps
from penstock.cluster.client.server_settings import host_and_port
from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError
from penstock.common.extractors import FailOnInvalidTimestamp, UsePartitionTimeOnInvalidTimestamp
from penstock.common.records import Record


@pytest.mark.parametrize(
    ("key", "value", "reported"),
    [
        ("bootstrap.servers", ["a:1", "b:1"], "one string is expected, with commas: 'host:port,host:port' .got "),
        ("bootstrap.servers", 9092, "one string is expected, with commas: 'host:port,host:port' .got 9092."),
        ("application.server", 8080, "one string is expected, 'host:port' .got 8080."),
        ("application.id", 5, "a string is expected .got 5."),
        ("default.key.serde", ps.Serde, r"an object is expected, not its class: write Serde\(\)"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_with_the_right_one(key: str, value: Any, reported: str) -> None:
    with pytest.raises(ConfigError, match=f"'{key}': {reported}"):
        StreamsConfig.of({"application.id": "a", key: value})


@pytest.mark.parametrize("given", ["text", ["application.id"], None])
def test_a_configuration_that_is_no_dict_is_refused(given: Any) -> None:
    builder = ps.StreamsBuilder()
    builder.stream("x", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string())).to("y")
    with pytest.raises(TypeError, match=r"a configuration is a dict of keys, such as .*, not"):
        ps.KafkaStreams(builder.build(), given)


@pytest.mark.parametrize("address", ["http://127.0.0.1:8080", "https://a:1", "//a:1"])
def test_an_address_of_the_web_is_not_host_and_port(address: str) -> None:
    with pytest.raises(ConfigError, match="is not host:port, such as"):
        host_and_port(address)


def test_errors_of_extractors_name_an_object_that_can_be_given() -> None:
    metadata: Any = type("At", (), {"topic": "t", "partition": 0, "offset": 7})()
    for extractor in (FailOnInvalidTimestamp(), UsePartitionTimeOnInvalidTimestamp()):
        with pytest.raises(ps.StreamsError, match=r"LogAndSkipOnInvalidTimestamp\(\) or"):
            extractor(Record("k", "v", 0), -1, -1, metadata)
