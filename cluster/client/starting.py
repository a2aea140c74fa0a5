"""Starting an application: the Ray cluster that it gets, and its coordinator there."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError

from penstock.actors.spec import ApplicationSpec
from penstock.cluster.client.control import remove_ended, stop_application
from penstock.cluster.coordinator_shell.coordinator_actor import CoordinatorActor
from penstock.cluster.names import NAMESPACE, coordinator_name
from penstock.cluster.programs.pickled_program import pickled_program
from penstock.cluster.ray_cluster.connections import (
    cluster_to_start_in,
    connect_to_cluster,
    each_cluster_with,
    start_cluster,
)
from penstock.cluster.ray_cluster.ray_daemons import daemons_in_sessions_of_their_own
from penstock.cluster.ray_cluster.ray_errors import last_line
from penstock.cluster.ray_cluster.running_lock import refuse_running_elsewhere
from penstock.common.errors import ApplicationStateError
from penstock.common.log import logger

_START_S = 60.0
_END_ELSEWHERE_S = 120.0
_PIECE_BYTES = 64 * 1024
# As Ray's manual gives it: the constant has moved from one private module to another (Ray 2.47).
_HEAD_NODE = "node:__internal_head__"
_ALL_PIECES_BYTES = 9 << 20


def connect(application_id: str, take_over: bool = False) -> None:
    """Connect to Ray to start ``application_id``, unless this process is connected: to ``RAY_ADDRESS``, to the cluster
    that ``ray start`` started last on this machine, else to a new one that lives as long as this process.

    Raises ApplicationStateError, within seconds, when the cluster does not answer or wants a token, and instead of a
    new cluster when the application runs in another one on this machine; ``take_over`` stops it there.
    """
    if ray.is_initialized():
        return
    if (cluster := cluster_to_start_in()) is not None:
        connect_to_cluster(cluster, log_to_driver=True)
        return
    _leave_none_elsewhere(application_id, take_over)
    # Ray's advice about its token is for clusters that others can reach.
    logging.getLogger("ray._private.authentication.authentication_token_setup").setLevel(logging.ERROR)
    # Reports of a cluster that ends with this process would be of no use.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with daemons_in_sessions_of_their_own():
        start_cluster(log_to_driver=True, logging_level=logging.WARNING)


@contextmanager
def connection(application_id: str, take_over: bool = False) -> Iterator[None]:
    """:func:`connect`, and disconnect at the end if this process was not connected before: then Ray prints no more."""
    was = ray.is_initialized()
    connect(application_id, take_over)
    try:
        yield
    finally:
        if not was:
            ray.shutdown()


def _leave_none_elsewhere(application_id: str, take_over: bool) -> None:
    """Stop the application in the Ray clusters that have it, or raise if it runs there. On one machine two clusters
    would find one process id in ``state.dir``, and take the static member from each other."""
    for where in each_cluster_with(application_id):
        if take_over:
            _stop_in(where, application_id)
        else:
            remove_ended(application_id, where, otherwise=", end it by --take-over (start(take_over=True))")


def _stop_in(where: str, application_id: str) -> None:
    """Let it drain and commit as by ``penstock stop``: a cluster that can be asked need not be fenced."""
    log = logger(__name__).bind(application=application_id, where=where)
    log.info("taking over: the application is stopped where it runs", within_s=_END_ELSEWHERE_S)
    try:
        last = stop_application(application_id, _END_ELSEWHERE_S)
    except (ApplicationStateError, RayError, ConnectionError) as error:
        # Its actors are ended all the same, or they have ended with their cluster.
        log.warning("taking over: the application did not stop cleanly", error=str(error))
        return
    if last is None:
        log.warning("taking over: the application did not stop in time and was ended without a commit")


def _pieces(pickled: bytes) -> list[bytes]:
    """Ray moves an argument of 100 KiB or more to its object store, where it is lost when the driver ends: a
    coordinator that dies after that could not be restarted. Smaller arguments travel with the call, up to 10 MiB."""
    if len(pickled) > _ALL_PIECES_BYTES:
        logger(__name__).warning(
            "the program is so large that Ray keeps it with this process: once this process has ended, a coordinator "
            "that dies cannot be restarted. Have the functions load what is large where they "
            "run, instead of holding it",
            program_bytes=len(pickled),
            good_up_to_bytes=_ALL_PIECES_BYTES,
        )
    return [pickled[begin : begin + _PIECE_BYTES] for begin in range(0, len(pickled), _PIECE_BYTES)]


def start_coordinator(spec: ApplicationSpec, http_address: str | None = None) -> Any:
    """Create the application's coordinator, which gets the address of its HTTP server;
    :func:`~penstock.cluster.client.control.remove_ended` goes before.

    Raises ConfigError for a program that cannot be pickled, ApplicationStateError if another process starts the
    application at this moment, if it runs in another Ray cluster with the same state directory and ``spec`` does not
    take over, or if Ray cannot.
    """
    application_id = spec.application_id
    if not spec.take_over:
        refuse_running_elsewhere(spec.config.state_dir / application_id)
    pickled = pickled_program(spec)
    remote: Any = ray.remote(CoordinatorActor).options(
        name=coordinator_name(application_id),
        namespace=NAMESPACE,
        lifetime="detached",
        num_cpus=0,
        # The one node that is permanent: an actor elsewhere would keep its node alive, or be lost with it.
        resources={_HEAD_NODE: 0.001},
        max_restarts=-1,
        max_task_retries=-1,
        enable_task_events=False,
    )
    try:
        coordinator = remote.remote(application_id, *_pieces(pickled))
    except ValueError as error:
        raise ApplicationStateError(
            f"application {application_id!r} is being started by another process: {error}"
        ) from error
    try:
        # A driver that ends before a detached actor exists takes it along.
        ray.get(coordinator.ready.remote(), timeout=_START_S)
        ray.get(coordinator.set_http_address.remote(http_address), timeout=_START_S)
    except RayActorError as error:
        ray.kill(coordinator)
        raise ApplicationStateError(
            f"the coordinator of application {application_id!r} cannot start in the Ray cluster; penstock and "
            f"its dependencies must be installed there: {last_line(error)}"
        ) from error
    except GetTimeoutError:
        ray.kill(coordinator)
        raise ApplicationStateError(
            f"Ray did not start the coordinator of application {application_id!r} within {_START_S:.0f} s"
        ) from None
    except RayError as error:  # such as a node that has run out of memory
        ray.kill(coordinator)
        raise ApplicationStateError(
            f"the coordinator of application {application_id!r} cannot start in the Ray cluster: {last_line(error)}"
        ) from error
    except BaseException:  # Ctrl-C too: a detached actor would continue, and the caller holds nothing to end it by
        ray.kill(coordinator)
        raise
    return coordinator
