"""What a driver does to applications: connect to Ray, start, look, stop. For ``KafkaStreams`` and the command line."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray import cloudpickle
from ray._common.constants import HEAD_NODE_RESOURCE_NAME
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayActorError, RayError

from penstock.actors.messages import ApplicationSpec, ApplicationState, ApplicationStatus
from penstock.cluster import final_state, wanted_count
from penstock.cluster.coordinator_actor import CoordinatorActor
from penstock.cluster.http_actor import stop_http
from penstock.cluster.named_actors import applications, find_coordinator, find_http_actor
from penstock.cluster.names import NAMESPACE, coordinator_name
from penstock.cluster.ray_clusters import (
    RayCluster,
    clusters,
    named_address,
    probe,
    started_here,
    unreachable,
    use_token,
)
from penstock.cluster.ray_errors import last_line
from penstock.cluster.read_side import state_error
from penstock.cluster.stream_actor_handle import StreamActorHandle
from penstock.cluster.topology_difference import difference
from penstock.common.errors import ApplicationStateError, ConfigError
from penstock.common.log import logger

_START_S = 60.0
_STATUS_S = 10.0
_PAUSE_S = 30.0
_AGAIN_S = 0.5
_PIECE_BYTES = 64 * 1024
_ALL_PIECES_BYTES = 9 << 20


def connect(application_id: str) -> None:
    """Connect to Ray to start ``application_id``, unless this process is connected: to ``RAY_ADDRESS``, to the cluster
    that ``ray start`` started last on this machine, else to a new one that lives as long as this process.

    Raises ApplicationStateError, within seconds, when the cluster does not answer or wants a token, and instead of a
    new cluster when the application runs in another one on this machine.
    """
    if ray.is_initialized():
        return
    if (cluster := _cluster_to_start_in()) is not None:
        _init(cluster, log_to_driver=True)
        return
    _remove_ended_elsewhere(application_id)
    # What Ray advises of its token is for clusters that others can reach.
    logging.getLogger("ray._private.authentication.authentication_token_setup").setLevel(logging.ERROR)
    # A cluster that ends with this process reports to nobody.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init("local", namespace=NAMESPACE, include_dashboard=False, logging_level=logging.WARNING)


def _cluster_to_start_in() -> RayCluster | None:
    """The one that is there; None if a new one would be made."""
    if address := named_address():
        return probe(address)
    return None if os.environ.get("RAY_ADDRESS") == "local" else started_here()


@contextmanager
def connected_where_it_starts() -> Iterator[str | None]:
    """Connected to the Ray cluster that :func:`connect` finds, and its address; None if it would make a new one, which
    nobody needs to look at what an application has left. Disconnects at the end if this process was not connected."""
    if ray.is_initialized():
        yield ray.get_runtime_context().gcs_address
        return
    cluster = _cluster_to_start_in()
    if cluster is None:
        yield None
        return
    _init(cluster, log_to_driver=False)
    try:
        yield cluster.address
    finally:
        ray.shutdown()


@contextmanager
def connection(application_id: str) -> Iterator[None]:
    """:func:`connect`, and disconnect at the end if this process was not connected before: then Ray prints no more."""
    was = ray.is_initialized()
    connect(application_id)
    try:
        yield
    finally:
        if not was:
            ray.shutdown()


def _remove_ended_elsewhere(application_id: str) -> None:
    """On one machine two Ray clusters would find one process id in ``state.dir``, and take the seat from each other."""
    for where in _each_cluster_with(application_id):
        remove_ended(application_id, where)


def _each_cluster_with(application_id: str) -> Iterator[str]:
    """Connect in turn to every Ray cluster that can be asked and has the application, running or not; what to call
    it."""
    for cluster in clusters():
        if application_id in cluster.applications:
            _init(cluster, log_to_driver=False)
            try:
                yield f"the Ray cluster at {cluster.address}"
            finally:
                ray.shutdown()


def refuse_if_running(application_id: str) -> None:
    """Raise ApplicationStateError while the application runs in the Ray cluster that this process is connected to; if
    it is to none, in any that can be asked (see :func:`connect_to`)."""
    for where in ["this Ray cluster"] if ray.is_initialized() else _each_cluster_with(application_id):
        _refuse_live(application_id, find_coordinator(application_id), where)


def connect_to(application_id: str) -> None:
    """Connect to the Ray cluster that ``application_id`` runs in, unless this process is connected: the one of
    ``RAY_ADDRESS``, else whichever on this machine has it.

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
            f"application {application_id!r} runs in several Ray clusters: {where}; say which one by RAY_ADDRESS"
        )
    _init(having[0], log_to_driver=False)


def each_cluster() -> Iterator[RayCluster]:
    """Connect in turn to every Ray cluster that can be asked and knows applications (see :func:`connect_to`)."""
    if ray.is_initialized():
        yield RayCluster(ray.get_runtime_context().gcs_address, tuple(applications()))
        return
    found = clusters()
    if all(cluster.problem for cluster in found):
        raise unreachable(found)
    # Those that want a token last: from then on this process shows it.
    for cluster in sorted(found, key=lambda it: (it.wants_token, it.address)):
        if cluster.applications:
            _init(cluster, log_to_driver=False)
            try:
                yield cluster
            finally:
                ray.shutdown()


def _init(cluster: RayCluster, log_to_driver: bool) -> None:
    if cluster.problem:
        raise unreachable([cluster])
    if cluster.wants_token:
        use_token()
    try:
        ray.init(cluster.address, namespace=NAMESPACE, log_to_driver=log_to_driver, logging_level=logging.WARNING)
    except (ConnectionError, RayError) as error:
        raise ApplicationStateError(
            f"cannot connect to the Ray cluster at {cluster.address}: {last_line(error)}"
        ) from error


def _not_found(application_id: str, found: list[RayCluster]) -> ApplicationStateError:
    asked = [cluster for cluster in found if not cluster.problem]
    if not asked:
        return unreachable(found)
    where = " and ".join(cluster.address for cluster in asked)
    known = sorted({repr(name) for cluster in asked for name in cluster.applications})
    unasked = "".join(f"; {cluster.problem}" for cluster in found if cluster.problem)
    return ApplicationStateError(
        f"application {application_id!r} does not run in the Ray cluster at {where}; "
        f"applications there: {', '.join(known) or 'none'}{unasked}"
    )


def status_of(coordinator: Any) -> ApplicationStatus | None:
    """What the coordinator knows; None when it is gone.

    Raises ApplicationStateError when it does not answer, or is being restarted: the application itself goes on then.
    """
    try:
        status: ApplicationStatus = ray.get(coordinator.status.remote(), timeout=_STATUS_S)
    except ActorUnavailableError:
        raise ApplicationStateError("the application's coordinator is being restarted: ask again") from None
    except RayActorError:
        return None
    except GetTimeoutError:
        raise ApplicationStateError(f"the application's coordinator has not answered for {_STATUS_S:.0f} s") from None
    return status


def require_status(application_id: str) -> ApplicationStatus:
    """The status of an application. Raises ApplicationStateError naming those that run, if it does not."""
    coordinator = find_coordinator(application_id)
    status = status_of(coordinator) if coordinator is not None else None
    if status is None:
        known = ", ".join(repr(name) for name in applications()) or "none"
        raise ApplicationStateError(
            f"application {application_id!r} does not run in this Ray cluster; applications there: {known}"
        )
    return status


def _pieces(pickled: bytes) -> list[bytes]:
    """Ray moves an argument of 100 KiB or more to its object store, where it ends with the driver: a coordinator that
    dies after that could not be restarted. Smaller ones travel with the call, up to 10 MiB of them."""
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
    """Create the application's coordinator, which gets the address of its HTTP server; :func:`remove_ended` goes
    before.

    Raises ApplicationStateError when someone else is just starting the application, or when Ray cannot.
    """
    application_id = spec.application_id
    try:
        pickled: bytes = cloudpickle.dumps(spec)  # type: ignore[no-untyped-call]  # untyped in Ray
    except Exception as error:  # pickling runs arbitrary code of the user's objects
        raise ConfigError(
            f"application {application_id!r} cannot be sent to the cluster: something that its functions or its "
            f"configuration refer to cannot be pickled: {type(error).__name__}: {error}"
        ) from error
    remote: Any = ray.remote(CoordinatorActor).options(
        name=coordinator_name(application_id),
        namespace=NAMESPACE,
        lifetime="detached",
        num_cpus=0,
        # The one node that does not come and go: any actor keeps a node, or is lost with it.
        resources={HEAD_NODE_RESOURCE_NAME: 0.001},
        max_restarts=-1,
        max_task_retries=-1,
        enable_task_events=False,
    )
    try:
        coordinator = remote.remote(application_id, *_pieces(pickled))
    except ValueError as error:
        raise ApplicationStateError(
            f"application {application_id!r} is being started by someone else at this moment: {error}"
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
    except BaseException:  # Ctrl-C too: a detached actor would go on, and the caller holds nothing to end it by
        ray.kill(coordinator)
        raise
    return coordinator


def pause_application(application_id: str, coordinator: Any, paused: bool) -> ApplicationStatus:
    """Keep the tasks of an application from processing, or let them go on; its status then.

    Raises ApplicationStateError when it has ended, or its coordinator does not answer in time.
    """
    try:
        status: ApplicationStatus = ray.get(coordinator.pause.remote(paused), timeout=_PAUSE_S)
    except GetTimeoutError:
        raise ApplicationStateError(
            f"the coordinator of application {application_id!r} has not answered for {_PAUSE_S:.0f} s: ask again"
        ) from None
    except RayActorError as error:
        raise ApplicationStateError(f"application {application_id!r} does not run: {last_line(error)}") from error
    if status.state.has_ended:
        raise state_error(status)
    return status


def remove_ended(application_id: str, where: str = "this Ray cluster", topology: str | None = None) -> None:
    """End what an application that has ended left behind. Raises ApplicationStateError when it runs, with what differs
    when that is another ``topology`` than the one described."""
    coordinator = find_coordinator(application_id)
    _refuse_live(application_id, coordinator, where, ", or give this one another application.id", topology)
    end_actors(application_id, coordinator)


def _refuse_live(
    application_id: str, coordinator: Any | None, where: str, otherwise: str = "", topology: str | None = None
) -> None:
    status = status_of(coordinator) if coordinator is not None else None
    if status is not None and not status.state.has_ended:
        raise ApplicationStateError(
            f"application {application_id!r} is already running in {where} (state {status.state.value}): "
            f"stop it with 'penstock stop {application_id}'{otherwise}{_difference(coordinator, topology)}"
        )


def _difference(coordinator: Any, topology: str | None) -> str:
    if topology is None:
        return ""
    try:
        running: str = ray.get(coordinator.describe.remote(), timeout=_STATUS_S)
    except RayError:  # that it runs is said all the same
        return ""
    found = difference(running, topology) if running else ""
    return f". {found}" if found else ""


def stop_application(application_id: str, timeout_s: float) -> ApplicationStatus | None:
    """Drain, commit, end every actor of the application.

    Returns the last status, also when another command stopped the application at the same time; None when it did not
    end in time and its actors were ended without a commit. Raises ApplicationStateError when its coordinator was ended
    by force while actors still worked.
    """
    coordinator = find_coordinator(application_id)
    try:
        return _left(application_id) if coordinator is None else _drained(application_id, coordinator, timeout_s)
    finally:
        end_actors(application_id, coordinator)


def _drained(application_id: str, coordinator: Any, timeout_s: float) -> ApplicationStatus | None:
    deadline = time.monotonic() + timeout_s
    while (left_s := deadline - time.monotonic()) > 0:
        try:
            status: ApplicationStatus = ray.get(coordinator.stop.remote(), timeout=left_s)
        except GetTimeoutError:
            break
        except ActorUnavailableError:
            time.sleep(_AGAIN_S)  # it is being restarted, and to stop is idempotent
        except RayActorError:
            return _left(application_id)
        else:
            return status
    return None


def _left(application_id: str) -> ApplicationStatus:
    """The status of an application without coordinator: it stopped if no actor is left, since these end first."""
    if StreamActorHandle.find(application_id):
        raise ApplicationStateError(
            f"the coordinator of application {application_id!r} was ended by force while its actors worked; these are "
            "ended too: what they did since the last commit is done again at the next start"
        )
    return ApplicationStatus(application_id, ApplicationState.NOT_RUNNING, 0, (), {})


def end_actors(application_id: str, coordinator: Any | None) -> None:
    """End what is left of an application: HTTP server, coordinator, stream actors, in this order. Idempotent.

    ``coordinator`` is the one that the caller has looked at, None if there was none: if another has taken its place
    meanwhile, the application was started anew, and all that bears its name belongs to that start.
    """
    server, actors = find_http_actor(application_id), StreamActorHandle.find(application_id)
    # Looked for last: whatever was found before it is older than any coordinator that comes later.
    current = find_coordinator(application_id)
    if current is not None and current != coordinator:
        return
    if server is not None:
        stop_http(server)
    if current is not None:
        ray.kill(current)
        final_state.delete(current._actor_id.hex())
        wanted_count.delete(current._actor_id.hex())
    for actor in actors:
        actor.kill()
