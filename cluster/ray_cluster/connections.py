"""Connects a driver to Ray clusters, and finds the ones that know an application."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

import ray
from ray.exceptions import RayError

from penstock.cluster.names import NAMESPACE
from penstock.cluster.ray_cluster.named_actors import applications
from penstock.cluster.ray_cluster.ray_clusters import (
    RayCluster,
    clusters,
    named_address,
    probe,
    started_here,
    unreachable,
    use_token,
)
from penstock.cluster.ray_cluster.ray_errors import last_line
from penstock.common.errors import ApplicationStateError


def cluster_to_start_in() -> RayCluster | None:
    """Returns the cluster that is there; None if a new one would be made."""
    if address := named_address():
        return probe(address)
    return None if os.environ.get("RAY_ADDRESS") == "local" else started_here()


@contextmanager
def connected_as_start_would() -> Iterator[str | None]:
    """Connects to the Ray cluster that :func:`connect` finds, and yields its address; None if that would make a new
    one, which is not needed to look at what an application has left. Disconnects at the end if this process was not
    connected."""
    if ray.is_initialized():
        yield ray.get_runtime_context().gcs_address
        return
    cluster = cluster_to_start_in()
    if cluster is None:
        yield None
        return
    connect_to_cluster(cluster, log_to_driver=False)
    try:
        yield cluster.address
    finally:
        ray.shutdown()


def each_cluster_with(application_id: str) -> Iterator[str]:
    """Connects in turn to every Ray cluster that can be asked and has the application, running or not; yields a text
    that names it."""
    for cluster in clusters():
        if application_id in cluster.applications:
            connect_to_cluster(cluster, log_to_driver=False)
            try:
                yield f"the Ray cluster at {cluster.address}"
            finally:
                ray.shutdown()


def connect_to(application_id: str) -> None:
    """Connect to the Ray cluster that ``application_id`` runs in, unless this process is connected: the one of
    ``RAY_ADDRESS``, else the one on this machine that has it.

    Raises ApplicationStateError when no cluster has it, or several.
    """
    if ray.is_initialized():
        return
    found = clusters()
    having = [cluster for cluster in found if application_id in cluster.applications]
    if not having:
        raise _not_found(application_id, found)
    if len(having) > 1:
        where = " and ".join(cluster.address for cluster in having)
        raise ApplicationStateError(
            f"application {application_id!r} runs in several Ray clusters: {where}; choose one by RAY_ADDRESS"
        )
    connect_to_cluster(having[0], log_to_driver=False)


def each_cluster() -> Iterator[RayCluster]:
    """Yields every Ray cluster that can be asked and knows applications, connected in turn (see :func:`connect_to`)."""
    if ray.is_initialized():
        yield RayCluster(ray.get_runtime_context().gcs_address, tuple(applications()))
        return
    found = clusters()
    if all(cluster.problem for cluster in found):
        raise unreachable(found)
    # Those that want a token last: from then on this process shows it.
    for cluster in sorted(found, key=lambda it: (it.wants_token, it.address)):
        if cluster.applications:
            connect_to_cluster(cluster, log_to_driver=False)
            try:
                yield cluster
            finally:
                ray.shutdown()


def connect_to_cluster(cluster: RayCluster, log_to_driver: bool) -> None:
    """Connect this process to it. Raises ApplicationStateError."""
    if cluster.problem:
        raise unreachable([cluster])
    if cluster.wants_token:
        use_token()
    try:
        ray.init(cluster.address, namespace=NAMESPACE, log_to_driver=log_to_driver, logging_level=logging.WARNING)
    except (ConnectionError, RayError, RuntimeError) as error:
        cause = last_line(error)
        if "Version mismatch" in str(error):  # the RuntimeError of Ray, in six lines
            cause = f"{' '.join(str(error).split())}. Install the cluster's versions of Ray and Python here"
        raise ApplicationStateError(f"cannot connect to the Ray cluster at {cluster.address}: {cause}") from error


def start_cluster(log_to_driver: bool, logging_level: int) -> None:
    """Start a cluster on this machine, which ends with this process. Raises ApplicationStateError if that fails."""
    try:
        ray.init(
            "local",
            namespace=NAMESPACE,
            include_dashboard=False,
            log_to_driver=log_to_driver,
            logging_level=logging_level,
        )
    except Exception as error:  # Ray raises this class when its daemons take longer than 30 s
        raise ApplicationStateError(
            f"Ray did not start on this machine: {last_line(error).rstrip('.')}. Its logs are in "
            "/tmp/ray/session_latest/logs. If other programs need all CPUs, try again when they have ended"
        ) from error


def _not_found(application_id: str, found: list[RayCluster]) -> ApplicationStateError:
    asked = [cluster for cluster in found if not cluster.problem]
    if not asked:
        return unreachable(found)
    where = " and ".join(cluster.address for cluster in asked)
    known = sorted({repr(name) for cluster in asked for name in cluster.applications})
    unasked = "".join(f"; {cluster.problem}" for cluster in found if cluster.problem)
    return ApplicationStateError(
        f"application {application_id!r} does not run in the Ray cluster{'s' if len(asked) > 1 else ''} at {where}; "
        f"applications there: {', '.join(known) or 'none'}{unasked}"
    )
