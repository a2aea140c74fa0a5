"""One node's Java process: started in a session of its own, and identified by its process id *and* command line."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from penstock.common.errors import LocalBrokerError
from penstock.kafka.local_broker.java import Java
from penstock.kafka.local_broker.node_files import NodeFiles

_FORMAT_FLAGS = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_SERVER_FLAGS = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")
FORMAT_TIMEOUT_S = 120.0
_POLL_S = 0.05
_SETTLE_S = 5.0


def format_node(java: Java, jars: Sequence[Path], files: NodeFiles, cluster_id: str) -> None:
    """Prepare the node's data folder for this cluster; one that is prepared already is not changed.

    Raises LocalBrokerError if Kafka refuses, or takes longer than two minutes.
    """
    command = [*_java_command(java, jars, files, _FORMAT_FLAGS), "kafka.tools.StorageTool", "format"]
    command += ["--ignore-formatted", "--cluster-id", cluster_id, "--config", str(files.properties)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FORMAT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise LocalBrokerError(
            f"Kafka did not prepare its folder {files.data} within {FORMAT_TIMEOUT_S:.0f} s: this machine is too busy. "
            "Start the broker again when it is less busy."
        ) from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["it gave no reason"]
        raise LocalBrokerError(f"Kafka could not prepare its folder {files.data}: {lines[-1]}")


def start_node(java: Java, jars: Sequence[Path], files: NodeFiles, heap_mb: int) -> subprocess.Popen[bytes]:
    """Start the node and return at once. It outlives this process and does not get its terminal's signals."""
    flags = (f"-Xms{heap_mb // 2}m", f"-Xmx{heap_mb}m", *_SERVER_FLAGS)
    command = [*_java_command(java, jars, files, flags), "kafka.Kafka", str(files.properties)]
    with files.console.open("wb") as console:
        return subprocess.Popen(
            command,
            cwd=files.folder,
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _java_command(java: Java, jars: Sequence[Path], files: NodeFiles, flags: Sequence[str]) -> list[str]:
    logging = f"-Dlog4j2.configurationFile={files.logging}"
    class_path = os.pathsep.join(str(jar) for jar in jars)
    return [str(java.executable), *flags, "-Djava.awt.headless=true", logging, "-cp", class_path]


def is_node(pid: int, files: NodeFiles) -> bool:
    """Returns True if ``pid`` is a process of this node, and not another process with the id of a dead node.

    A node is identified by the file with which it was started: unlike its start time, that does not depend on the
    clock.
    """
    try:
        return str(files.properties) in _command_line(psutil.Process(pid))
    except psutil.Error:
        return False


def _command_line(process: psutil.Process) -> list[str]:
    """Returns the command line; empty for a process that has ended and was not reaped yet.

    It is also empty for an instant while a process starts or ends, longer on a busy machine: then this waits. The wait
    is limited, because threads of the kernel never have a command line.
    """
    deadline = time.monotonic() + _SETTLE_S
    while process.status() != psutil.STATUS_ZOMBIE:
        found = process.cmdline()
        if found or time.monotonic() > deadline:
            return found
        time.sleep(0.005)
    return []


def stop_node(pid: int, files: NodeFiles, *, gracefully: bool) -> None:
    """Ask the node to end, or kill it. Returns at once. Does nothing if ``pid`` is not this node."""
    if not is_node(pid, files):
        return
    try:
        process = psutil.Process(pid)
        if gracefully:
            process.terminate()
        else:
            process.kill()
    except psutil.NoSuchProcess:
        return
    except psutil.AccessDenied as error:
        raise LocalBrokerError(f"The broker's process {pid} belongs to another user, who must stop it.") from error


def await_end(pids: dict[int, NodeFiles], timeout_s: float) -> dict[int, NodeFiles]:
    """Wait until none of these nodes lives. Returns those that still live when time is up."""
    deadline = time.monotonic() + timeout_s
    while True:
        alive = {pid: files for pid, files in pids.items() if is_node(pid, files)}
        if not alive or time.monotonic() > deadline:
            return alive
        time.sleep(_POLL_S)
