"""A pickled program that needs no file of the user's."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import penstock as ps
from penstock.actors.spec import ApplicationSpec
from penstock.cluster.programs.program_with_code import pickled_with_code, unpickled_program
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


def application(function: Callable[[str], str]) -> ApplicationSpec:
    string = ps.Serdes.string()
    builder = ps.StreamsBuilder()
    builder.stream("in", ps.Consumed.with_(string, string)).map_values(function).to(
        "out", ps.Produced.with_(string, string)
    )
    return ps.KafkaStreams(builder.build(), {"application.id": "app", "bootstrap.servers": "127.0.0.1:1"})._spec


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module of a user's."""
    file = tmp_path / "users_program.py"
    file.write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    yield file
    sys.modules.pop("users_program", None)


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


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages", "target"])
def test_a_library_is_no_code_of_the_user_wherever_it_is_installed(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / folder
    library = installed / "some_library"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text(
        "import threading\nLOCK = threading.Lock()\ndef held(v):\n    return v if LOCK else v\n"
    )
    (installed / "users_neighbour.py").write_text("def kept(value):\n    return value\n")
    record = installed / "some_library-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Name: some-library\nVersion: 1.0\n")
    (record / "RECORD").write_text("some_library/__init__.py,,\n../bin/some-library,,\n")
    monkeypatch.syspath_prepend(installed)

    names = ["some_library", "users_neighbour"]
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    library_module, neighbour = (importlib.import_module(name) for name in names)
    try:
        unpickled_program(pickled_with_code(application(library_module.held)))
        pickled = pickled_with_code(application(neighbour.kept))
    finally:
        for name in names:
            sys.modules.pop(name)
    monkeypatch.undo()
    if folder == "target":
        unpickled_program(pickled)  # the user's module beside a library travels with the program


@pytest.mark.long
def test_two_programs_may_be_pickled_at_once(code: Path) -> None:
    import users_program

    spec = users_program.application(users_program.loud)._spec
    with ThreadPoolExecutor(8) as pool:
        pickled = list(pool.map(lambda _: pickled_with_code(spec), range(40)))
    assert len(set(pickled)) == 1


def test_an_object_that_cannot_be_sent_with_the_code_is_named(code: Path) -> None:
    import users_program

    with pytest.raises(ConfigError, match="cannot pickle"):
        pickled_with_code(users_program.application(users_program.locked)._spec)


def test_bytes_that_are_no_program_are_refused_in_one_sentence() -> None:
    with pytest.raises(ConfigError, match="the program cannot be read here"):
        unpickled_program(b"nonsense")
