"""A pickled program that needs no file of the user's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import penstock as ps
from penstock.cluster.program_with_code import pickled_with_code, unpickled_program
from penstock.common.errors import ConfigError
from penstock.testing.topology_test_driver import TopologyTestDriver

CODE = """
import threading
import penstock as ps

LOCK = threading.Lock()
STRING = ps.Serdes.string()

def loud(value):
    return value.upper() + MARK

def locked(value):
    with LOCK:
        return value

MARK = "!"

def application(function):
    builder = ps.StreamsBuilder()
    builder.stream("in", ps.Consumed.with_(STRING, STRING)).map_values(function).to("out")
    config = {"application.id": "app", "default.key.serde": STRING, "default.value.serde": STRING}
    return ps.KafkaStreams(builder.build(), config)
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of a user's."""
    file = tmp_path / "users_program.py"
    file.write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "users_program", raising=False)
    return file


def test_a_program_runs_although_its_files_are_gone(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import users_program  # type: ignore[import-not-found]  # the fixture writes it

    pickled = pickled_with_code(users_program.application(users_program.loud)._spec)
    code.unlink()
    monkeypatch.delitem(sys.modules, "users_program")
    spec = unpickled_program(pickled)
    with TopologyTestDriver(spec.topology, spec.config.entries()) as driver:
        source = driver.create_input_topic("in", ps.Serdes.string(), ps.Serdes.string())
        sink = driver.create_output_topic("out", ps.Serdes.string(), ps.Serdes.string())
        source.pipe_input("k", "hello")
        assert sink.read_value() == "HELLO!"
    assert "users_program" not in sys.modules


def test_what_cannot_be_sent_with_the_code_is_named(code: Path) -> None:
    import users_program

    with pytest.raises(ConfigError, match="cannot pickle"):
        pickled_with_code(users_program.application(users_program.locked)._spec)


def test_bytes_that_are_no_program_are_refused_in_one_sentence() -> None:
    with pytest.raises(ConfigError, match="the program cannot be read here"):
        unpickled_program(b"nonsense")
