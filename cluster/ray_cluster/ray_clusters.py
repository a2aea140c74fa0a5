"""Finds Ray clusters, and the applications that run in them: before a connection is made, and within seconds."""

from __future__ import annotations

import importlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray._private import services

from penstock.cluster.names import NAMESPACE, application_of
from penstock.common.errors import ApplicationStateError, ConfigError

ANSWER_S = 8.0
_AUTH_MODE = "RAY_AUTH_MODE"
_GCS = "--gcs-address="
_RAYLET: Any = importlib.import_module("ray._raylet")  # compiled, without types
_PROBE = Path(__file__).with_name("ray_probe.py")


@dataclass(frozen=True)
class RayCluster:
    """A Ray cluster that was asked. ``problem`` is why its applications are not known; None when they are."""

    address: str
    applications: tuple[str, ...] = ()
    wants_token: bool = False
    problem: str | None = None


def named_address() -> str | None:
    """Returns the ``host:port`` in ``RAY_ADDRESS``; None if it leaves the choice. Else raises ConfigError."""
    address = os.environ.get("RAY_ADDRESS", "")
    if address in ("", "auto", "local"):
        return None
    if "://" in address or ":" not in address:
        raise ConfigError(
            f"RAY_ADDRESS={address} is not the address of a Ray cluster: penstock needs host:port, as "
            "'ray start --head' prints it (http://… is for 'ray job', ray://… for Ray's client). On a machine of the "
            "cluster, unset it"
        )
    return address


def started_here() -> RayCluster | None:
    """Returns the cluster that ``ray start`` started last on this machine; None if that has ended."""
    address = services.find_bootstrap_address(None)
    return probe(address) if address in _local() else None


def clusters() -> list[RayCluster]:
    """Asks, and returns, the cluster of ``RAY_ADDRESS``; if that is not set, all whose nodes run on this machine."""
    address = named_address()
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(probe, [address] if address else sorted(_local())))


def probe(address: str) -> RayCluster:
    """Ask one cluster; never raises, and takes no longer than ``ANSWER_S`` (twice that where a token is needed)."""
    answer = _ask(address, {})
    with_token = "refused" in answer and _may_show_token(address)
    if with_token:
        answer = _ask(address, {_AUTH_MODE: "token"})
    if "actors" in answer:
        names = (application_of(name) for namespace, name in answer["actors"] if namespace == NAMESPACE)
        return RayCluster(address, tuple(sorted(name for name in names if name is not None)), with_token)
    if "refused" in answer:
        return RayCluster(address, problem=_refused(address, str(answer["refused"])))
    return RayCluster(address, problem=f"no Ray cluster answers at {address}: {answer['failed']}")


def use_token() -> None:
    """Let this process show the token of ``~/.ray/auth_token``, as Ray does in a process that starts a cluster."""
    os.environ[_AUTH_MODE] = "token"
    _RAYLET.Config.initialize("")


def unreachable(found: Iterable[RayCluster]) -> ApplicationStateError:
    """Returns the error that explains why none of these can be used."""
    problems = [cluster.problem for cluster in found if cluster.problem]
    if not problems:
        return ApplicationStateError(
            "no Ray cluster runs on this machine: start the application ('penstock run'), or name its cluster by "
            "RAY_ADDRESS=host:port"
        )
    if address := named_address():
        return ApplicationStateError(f"cannot connect to RAY_ADDRESS={address}: {problems[0]}")
    return ApplicationStateError(
        f"no application was found: {'; '.join(problems)}. It may have just ended, or be another user's. "
        "If the machine is busy, ask again; or name your cluster by RAY_ADDRESS=host:port"
    )


def _local() -> frozenset[str]:
    if forget := getattr(services.find_gcs_addresses, "cache_clear", None):  # Ray 2.44 does not keep what it found
        forget()
    return frozenset(services.find_gcs_addresses())  # type: ignore[no-untyped-call]  # untyped in Ray


def _may_show_token(address: str) -> bool:
    """Returns True if the token may be shown unasked: only to this user's own clusters on this machine, as a process
    that reads it may use every cluster that has it."""
    if _AUTH_MODE in os.environ or address not in _own() or not _is_of_this_machine(address):
        return False
    return bool(_RAYLET.AuthenticationTokenLoader.instance().has_token(ignore_auth_mode=True))


def _own() -> frozenset[str]:
    """Returns the clusters whose nodes here run as this user. A process of another user may name any address on its
    command line, and Ray, which finds the addresses there, does not check the user."""
    processes = services.psutil.process_iter(["cmdline", "uids"])  # type: ignore[attr-defined]  # the one Ray brings
    return frozenset(
        argument.removeprefix(_GCS)
        for process in processes
        if process.info["uids"] is not None and set(process.info["uids"]) == {os.getuid()}
        if services._is_raylet_process(process.info["cmdline"])
        for argument in process.info["cmdline"]
        if argument.startswith(_GCS)
    )


def _is_of_this_machine(address: str) -> bool:
    """Returns True if the host's name has only addresses of this machine: only those can be bound."""
    host, _, port = address.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
        for family, kind, protocol, _, (ip, *_) in found:
            with socket.socket(family, kind, protocol) as attempt:
                attempt.bind((ip, 0))
    except OSError:
        return False
    return True


def _refused(address: str, why: str) -> str:
    text = f"the Ray cluster at {address} asks for a token and refuses this process ({why.splitlines()[0]}): "
    if os.environ.get(_AUTH_MODE, "").lower() == "token":
        return text + "put its token into ~/.ray/auth_token here, or into RAY_AUTH_TOKEN"
    return text + "set RAY_AUTH_MODE=token, and have the cluster's ~/.ray/auth_token here too (or RAY_AUTH_TOKEN)"


def _ask(address: str, environment: Mapping[str, str]) -> dict[str, Any]:
    command = [sys.executable, "-P", str(_PROBE), address]
    try:
        done = subprocess.run(
            command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=ANSWER_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"failed": f"nothing came within {ANSWER_S:.0f} s"}
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        output = [line for line in done.stderr.splitlines() if line.strip()]
        return {"failed": output[-1] if output else f"asking it ended with code {done.returncode}"}
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer
