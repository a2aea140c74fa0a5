"""``penstock doctor``: what each fact means; ``tests/cluster/test_command_line.py`` asks a real Kafka and Ray."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import doctor_checks as checks
from penstock.cli import doctor_probes as probes
from penstock.cli.doctor import made
from penstock.cli.doctor_checks import Checked, DiskFacts, LibraryFacts, NodeFacts, RayFacts, in_range
from penstock.cli.doctor_ray import least_skew_s
from penstock.cli.main import app
from penstock.cluster.findings import Level
from penstock.kafka.broker_version import kafka_release
from tests.waiting import PATIENCE_S

OK, WARNING, FAULT = Level.OK, Level.WARNING, Level.FAULT
GB = 1 << 30
NODE = NodeFacts("10.0.0.7", "3.11", "0.1.0", 0.02, 65_536)
RAY = RayFacts("2.50.0", "10.0.0.7:6379", None, 8.0, 5.0, (NODE,))
LIBRARIES = LibraryFacts((3, 11), {"ray": "2.50.0"}, {"ray": ">=2.44"}, "2.11.0", True)
DISK = DiskFacts("/var/penstock", True, None, 50 * GB, "ext4")


@pytest.mark.parametrize(
    ("found", "level", "said", "advice"),
    [
        (checks.broker("a:1", "no broker answers at a:1", None), FAULT, "no broker answers", "penstock broker start"),
        (checks.broker("a:1", None, "4.1"), OK, "Kafka 4.1 answers at a:1", ""),
        (checks.broker("a:1", None, "4.2 or later"), OK, "Kafka 4.2 or later", ""),
        (checks.broker("a:1", None, None), OK, "its version was not asked", ""),
        (checks.port("", None, False), OK, "no HTTP API", ""),
        (checks.port("h:80", None, False), OK, "h:80 is free", ""),
        (checks.port("h:80", "Address already in use", False), FAULT, "cannot be used: Address already", "port 0"),
        (checks.port("h:80", "Address already in use", True), WARNING, "an application of penstock", "another app"),
        (checks.disk(DISK), OK, "/var/penstock: 53.7 GB free (ext4)", ""),
        (checks.disk(replace(DISK, exists=False)), OK, "(it will be made)", ""),
        (checks.disk(replace(DISK, error="Permission denied")), FAULT, "Permission denied", "set state.dir"),
        (checks.disk(replace(DISK, free=GB)), WARNING, "1.1 GB free", "fits"),
        (checks.disk(replace(DISK, free=1000)), FAULT, "1.0 kB free", "free space"),
        (checks.disk(replace(DISK, kind="tmpfs")), WARNING, "is in memory (tmpfs)", "set state.dir to a disk"),
        (checks.disk(replace(DISK, kind="nfs4")), WARNING, "is on a network (nfs4)", "local disk"),
        (checks.ray(RAY, 2), OK, "Ray 2.50.0 at 10.0.0.7:6379, 1 node, 5 of 8 CPUs free", ""),
        (checks.ray(replace(RAY, free_cpus=0.0), 2), WARNING, "0 of 8 CPUs free", "each stream actor needs a CPU"),
        (checks.ray(RayFacts("2.50.0"), 2), OK, "'penstock run' starts one with 2 CPUs", ""),
        (checks.ray(RayFacts("2.50.0", "a:1", "it asks for a token"), 2), FAULT, "asks for a token", "RAY_ADDRESS"),
        (checks.nodes(RAY, "3.11", "0.1.0"), OK, "all have Python 3.11", ""),
        (checks.nodes(RAY, "3.12", "0.1.0"), FAULT, "10.0.0.7 has Python 3.11, penstock 0.1.0", "install Python 3.12"),
        (
            checks.nodes(replace(RAY, nodes=(NODE, NodeFacts("b", error="timed out"))), "3.11", "0.1.0"),
            FAULT, "b: timed out", "ray status",
        ),
        (checks.clocks(RAY), OK, "agree", ""),
        (checks.clocks(replace(RAY, nodes=(replace(NODE, skew_s=-3.0),))), WARNING, "differs by 3.0 s", "NTP"),
        (checks.clocks(replace(RAY, nodes=(replace(NODE, skew_s=60.0),))), FAULT, "differs by 60 s", "NTP"),
        (checks.open_files(65_536, 65_536, RAY), OK, "65,536 here", ""),
        (checks.open_files(1024, 65_536, RAY), WARNING, "few for many tasks", "ulimit -n 65536"),
        (checks.open_files(256, 4096, RAY), FAULT, "256 here", "ulimit -n 4096"),
        (
            checks.open_files(65_536, 65_536, replace(RAY, nodes=(replace(NODE, open_files=512),))),
            FAULT, "512 on a node", "before Ray is started",
        ),
        (checks.memory(16 * GB, 50 << 20, 4), OK, "4 actors of 52.4 MB", ""),
        (checks.memory(900 << 20, 50 << 20, 4), WARNING, "take about 838.9 MB", "page cache"),
        (checks.memory(1 * GB, 500 << 20, 4), FAULT, "1.1 GB can be used", "statestore.memory.max.bytes"),
        (checks.libraries(LIBRARIES), OK, "librdkafka 2.11.0", ""),
        (checks.libraries(replace(LIBRARIES, compiled=False)), WARNING, "binding to it is not used", "C compiler"),
        (
            checks.libraries(replace(LIBRARIES, versions={"ray": "2.9"})),
            WARNING, "ray 2.9 (tested: >=2.44)", "pip install --upgrade",
        ),
        (checks.libraries(replace(LIBRARIES, versions={"ray": None})), WARNING, "ray is missing", "pip install"),
        (checks.libraries(replace(LIBRARIES, python=(3, 14))), WARNING, "Python 3.14 (tested: 11 to 13", "pip install"),
        (checks.java(["Spark"], "Java 21 (PATH)", None), OK, "Java 21 (PATH), for Spark", ""),
        (checks.java(["Spark"], None, "there is no Java"), WARNING, "there is no Java; needed by Spark", "[local]"),
        (checks.program(None), OK, "as a start needs them", ""),
        (checks.program("topic 'in' is missing"), FAULT, "topic 'in' is missing", "a start would fail"),
    ],
)  # fmt: skip
def test_each_fact_has_its_meaning(found: Checked, level: Level, said: str, advice: str) -> None:
    assert found.level is level
    assert said in found.found
    assert advice in found.advice
    assert bool(found.advice) == (level is not OK), "all that is wrong has something to do"


def test_checks_that_do_not_apply_have_no_result() -> None:
    assert checks.nodes(RayFacts("2.50.0"), "3.11", "0.1.0") is None
    assert checks.clocks(RayFacts("2.50.0")) is None
    assert checks.java([], None, None) is None


@pytest.mark.parametrize(
    ("version", "allowed", "holds"),
    [
        ("2.44.0", ">=2.44", True), ("2.9", ">=2.44", False), ("2.16.1", ">=2.11,<3", True),
        ("3.0", ">=2.11,<3", False),
        ("4.0.0rc1", ">=4.0.0", True), ("21.0.8.2", "==21.0.8.2", True), ("1.0", "", True), ("9.2", "<9.2", False),
    ],
)  # fmt: skip
def test_versions_are_compared_by_their_numbers(version: str, allowed: str, holds: bool) -> None:
    assert in_range(version, allowed) == holds


# ---- probes ----


def test_a_check_that_hangs_or_fails_is_reported_and_hides_no_other() -> None:
    never = threading.Event()
    hung = made(("Ray", 0.05, lambda: [checks.program(None)] if never.wait() else []))
    assert [(each.name, each.level, each.found) for each in hung] == [
        ("Ray", WARNING, "could not be checked: it did not end within 0 s")
    ]
    never.set()

    def broken() -> list[Checked]:
        raise ZeroDivisionError("boom\nand more")

    (found,) = made(("memory", PATIENCE_S, broken))
    assert (found.level, found.found) == (WARNING, "could not be checked: ZeroDivisionError: boom")
    assert made(("clocks", PATIENCE_S, lambda: [None, checks.program(None)])) == [checks.program(None)]


def test_the_disk_of_a_folder_that_does_not_exist_is_that_above_it(tmp_path: Path) -> None:
    facts = probes.disk_facts(tmp_path / "a" / "b")
    assert (facts.exists, facts.error) == (False, None)
    assert facts.free > 0
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"
    (tmp_path / "file").write_text("")
    assert "is not a folder" in str(probes.disk_facts(tmp_path / "file" / "b").error)


@contextmanager
def listening(answer: bytes) -> Iterator[int]:
    """A server that reads once, sends ``answer`` and closes, for each connection; yields its port."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.recv(1000)
                connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield server.getsockname()[1]
    finally:
        server.close()


def test_a_port_is_free_in_use_or_that_of_an_application(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "_CONNECT_S", PATIENCE_S)
    with listening(b'HTTP/1.1 200 OK\r\nContent-Length: 19\r\n\r\n{"name":"penstock"}') as port:
        problem, is_penstock = probes.port_facts(f"127.0.0.1:{port}")
        assert (problem, is_penstock) == ("Address already in use", True)
    with listening(b"nonsense") as port:
        assert probes.port_facts(f"127.0.0.1:{port}") == ("Address already in use", False)
    assert probes.port_facts("127.0.0.1:0") == (None, False)
    assert probes.port_facts("127.0.0.1:many")[0] is not None


def test_the_release_of_a_broker_is_asked(broker: str) -> None:
    host, _, port = broker.rpartition(":")
    release = kafka_release(host, int(port), PATIENCE_S)
    assert release is not None
    assert float(release.split()[0]) >= 4.0


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00\x00\x00\x02\x00\x00"])
def test_an_answer_that_is_not_a_brokers_has_no_release(answer: bytes) -> None:
    with listening(answer) as port, pytest.raises((ValueError, IndexError)):
        kafka_release("127.0.0.1", port, PATIENCE_S)


def test_the_installed_libraries_are_those_that_are_asked_for() -> None:
    facts = probes.library_facts()
    assert facts.python == sys.version_info[:2]
    assert {"ray", "confluent-kafka", "rocksdict"} <= facts.versions.keys()
    assert facts.ranges["confluent-kafka"] == "<3,>=2.11"
    assert checks.libraries(facts).level is OK, checks.libraries(facts)


# ---- the command ----


@pytest.fixture
def healthy(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], None]:
    """Makes a machine on which all is well; called with the problem of its broker."""

    def make(problem: str | None) -> None:
        monkeypatch.setattr(probes, "broker_facts", lambda clients: (problem, "4.1"))
        monkeypatch.setattr(probes, "ray_facts", lambda: RAY)
        monkeypatch.setattr(probes, "port_facts", lambda address: (None, False))
        monkeypatch.setattr(probes, "disk_facts", lambda directory: DISK)
        monkeypatch.setattr(probes, "available_memory", lambda: 64 * GB)
        monkeypatch.setattr(probes, "open_file_limits", lambda: (65_536, 65_536))
        monkeypatch.setattr(probes, "library_facts", lambda: LIBRARIES)
        monkeypatch.setattr(probes, "java_facts", lambda: ([], None, None))
        monkeypatch.setattr(checks, "nodes", lambda facts, python, penstock: None)

    return make


def test_the_exit_code_tells_if_there_is_a_fault(healthy: Callable[[str | None], None]) -> None:
    healthy(None)
    done = CliRunner().invoke(app, ["doctor"])
    assert (done.exit_code, "All 8 checks are well" in done.stdout) == (0, True), done.output
    healthy("no broker answers at 127.0.0.1:9092")
    done = CliRunner().invoke(app, ["doctor", "--json"])
    assert done.exit_code == 1
    assert json.loads(done.stdout)[0] == {
        "name": "broker",
        "level": "fault",
        "found": "no broker answers at 127.0.0.1:9092",
        "advice": "start it ('penstock broker start'), or give its address by -b",
    }
    done = CliRunner().invoke(app, ["doctor"])
    assert "-> start it ('penstock broker start')" in done.stdout
    assert "1 of 8 checks found a fault" in done.stdout


def test_an_unknown_option_is_a_mistake_of_usage() -> None:
    assert CliRunner().invoke(app, ["doctor", "--nope"]).exit_code == 2


@pytest.mark.parametrize(
    ("there_s", "skew_s"), [(100.0, 0.0), (104.0, 0.0), (109.5, 0.0), (112.0, 2.0), (97.0, -3.0), (170.0, 60.0)]
)
def test_a_node_that_answers_late_has_no_other_clock(there_s: float, skew_s: float) -> None:
    assert least_skew_s(asked_s=100.0, there_s=there_s, answered_s=110.0) == skew_s
