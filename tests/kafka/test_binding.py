"""The choice between penstock's own binding to librdkafka and confluent-kafka's."""

from __future__ import annotations

import ctypes
import logging
import shutil
import sysconfig
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, cimpl

from penstock.kafka.binding import CONFLUENT_KAFKA, binding, handle_comes_first, supports
from penstock.kafka.fetcher import MessageFetcher, open_fetcher
from penstock.kafka.producer import ConfluentProducer, open_producer
from tests.architecture.sources import ROOT

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def fresh_binding() -> Iterator[None]:
    binding.cache_clear()
    yield
    binding.cache_clear()


def test_the_binding_is_used_with_every_version_that_may_be_installed() -> None:
    allowed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    first, end = ((".".join(map(str, bound))) for bound in CONFLUENT_KAFKA)
    assert f"confluent-kafka>={first},<{end.removesuffix('.0')}" in allowed


def left_alone(capsys: pytest.CaptureFixture[str]) -> str:
    """Returns the one warning for a process whose clients are all confluent-kafka's."""
    consumer = Consumer({"bootstrap.servers": NOWHERE, "group.id": "g"})
    try:
        assert isinstance(open_fetcher(consumer, {}), MessageFetcher)
        assert isinstance(open_fetcher(consumer, {}), MessageFetcher)
        producer = open_producer(NOWHERE, {})
        assert isinstance(producer, ConfluentProducer)
        producer.close()
    finally:
        consumer.close()
    captured = capsys.readouterr()
    (line,) = [line for line in (captured.out + captured.err).splitlines() if "binding" in line]
    assert "is not used: records are read and written at about 70 % of the speed" in line
    return line


@pytest.mark.parametrize("installed", ["2.10.1", "3.0.0"])
def test_a_version_of_confluent_kafka_that_is_not_tested_is_left_alone_with_one_warning(
    installed: str, fresh_binding: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("penstock.kafka.binding.version", lambda _: installed)
    line = left_alone(capsys)
    assert f"not tested with confluent-kafka {installed}" in line
    assert "install 'confluent-kafka>=2.11,<3'" in line


def test_clients_with_another_layout_are_left_alone_with_one_warning(
    fresh_binding: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if binding() is None:
        pytest.skip("the binding is not compiled")
    binding.cache_clear()
    monkeypatch.setattr("penstock.kafka.binding.handle_comes_first", lambda _: False)
    assert "cannot find librdkafka's handle" in left_alone(capsys)


def test_a_handle_is_looked_for_without_trusting_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    library = ctypes.CDLL(cimpl.__file__, mode=ctypes.RTLD_GLOBAL)
    assert handle_comes_first(library)

    class Moved:
        """A client that begins with something else: an address that is none."""

        __slots__ = ("first",)

        def __init__(self, settings: object) -> None:
            self.first = None
            ctypes.c_void_p.from_address(id(self) + object.__basicsize__).value = 8

        def close(self) -> None:
            ctypes.c_void_p.from_address(id(self) + object.__basicsize__).value = None

    monkeypatch.setattr("penstock.kafka.binding.Consumer", Moved)
    assert not handle_comes_first(library)


def test_without_a_compiler_the_reason_is_reported(
    fresh_binding: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name, name=name)

    monkeypatch.setattr("penstock.kafka.binding.import_module", missing)
    assert binding() is None
    captured = capsys.readouterr()
    assert "it was not built" in captured.out + captured.err
    assert "install penstock again where there is a C compiler" in captured.out + captured.err


@pytest.mark.parametrize(
    "overrides",
    [{"error_cb": print}, {"logger": logging.getLogger()}, {"default.topic.config": {}}, {"client.id": None}],
    ids=lambda overrides: next(iter(overrides)),
)
def test_settings_that_only_confluent_kafka_understands_are_left_to_it(overrides: dict[str, Any]) -> None:
    producer = open_producer(NOWHERE, overrides)
    assert isinstance(producer, ConfluentProducer)
    producer.close()


def test_tokens_are_left_to_confluent_kafka_too() -> None:
    assert supports({"sasl.mechanisms": "PLAIN", "linger.ms": 5, "enable.ssl.certificate.verification": True})
    assert not supports({"sasl.mechanisms": "OAUTHBEARER"})
    assert not supports({"sasl.oauthbearer.method": "oidc"})


@pytest.mark.skipif(
    shutil.which("cc") is None or not Path(sysconfig.get_path("include"), "Python.h").exists(),
    reason="no C compiler, or no headers of Python, here",
)
def test_with_a_compiler_the_binding_is_in_use() -> None:
    assert binding() is not None
