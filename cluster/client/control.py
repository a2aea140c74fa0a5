"""Calls of a driver to applications that run, or have run: status, pause, stop, clean-up."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayActorError, RayError

from penstock.cluster.client.http_actor import stop_http
from penstock.cluster.client.operations_log import log_operation
from penstock.cluster.coordinator_shell import final_state, kept_operations
from penstock.cluster.coordinator_shell.stream_actor_handle import StreamActorHandle
from penstock.cluster.program_view import FunctionView, ProgramView
from penstock.cluster.programs import kept_rollout
from penstock.cluster.programs.topology_difference import difference
from penstock.cluster.ray_cluster.connections import each_cluster_with
from penstock.cluster.ray_cluster.named_actors import applications, find_coordinator, find_http_actor
from penstock.cluster.ray_cluster.ray_errors import last_line
from penstock.cluster.read_side import state_error
from penstock.cluster.scaling import wanted_count
from penstock.cluster.scaling.ray_cpus import cluster_cpus
from penstock.cluster.status import ApplicationState, ApplicationStatus
from penstock.common.errors import ApplicationStateError

_STATUS_S = 10.0
_PROGRAM_S = 2.0
_PAUSE_S = 30.0
_LEAVE_S = 40.0
_AGAIN_S = 0.5


class CoordinatorSilentError(ApplicationStateError):
    """The coordinator does not answer now: Ray restarts it, or its machine is busy. The application continues."""


def refuse_if_running(application_id: str) -> None:
    """Raise ApplicationStateError while the application runs in the Ray cluster that this process is connected to; if
    it is to none, in any that can be asked (see :func:`~penstock.cluster.ray_cluster.connections.connect_to`)."""
    for where in ["this Ray cluster"] if ray.is_initialized() else each_cluster_with(application_id):
        _refuse_live(application_id, find_coordinator(application_id), where)


def status_of(coordinator: Any) -> ApplicationStatus | None:
    """Returns the status that the coordinator has; None if the coordinator is gone. Raises CoordinatorSilentError when
    it does not answer, or is being restarted.
    """
    try:
        status: ApplicationStatus = ray.get(coordinator.status.remote(), timeout=_STATUS_S)
    except ActorUnavailableError:
        raise CoordinatorSilentError("the application's coordinator is being restarted: ask again") from None
    except RayActorError:
        return None
    except GetTimeoutError:
        raise CoordinatorSilentError(
            f"the application's coordinator has not answered for {_STATUS_S:.0f} s: ask again"
        ) from None
    return status


def not_yet_running(status: ApplicationStatus, timeout_s: float) -> ApplicationStateError:
    """The error of a program that waited ``timeout_s`` for its application to run."""
    why = f": {status.waiting}" if status.waiting else ""
    return ApplicationStateError(
        f"application {status.application_id!r} is still {status.state.value} after {timeout_s:.0f} s "
        f"({len(status.actors)} actors up, {cluster_cpus()} CPUs in the Ray cluster){why}"
    )


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


def functions_of(application_id: str) -> Mapping[str, FunctionView] | None:
    """Returns the first function of each operator of the program that actors are to run; operators without one are left
    out. Returns None if the coordinator does not answer in time, or could not read the program."""
    coordinator = find_coordinator(application_id)
    try:
        view: ProgramView | None = coordinator and ray.get(coordinator.program_view.remote(), timeout=_PROGRAM_S)
    except (GetTimeoutError, RayError):
        return None
    if view is None:
        return None
    return {name: operator.functions[0] for name, operator in view.operators.items() if operator.functions}


def pause_application(application_id: str, coordinator: Any, paused: bool) -> ApplicationStatus:
    """Pause or resume the tasks of an application; returns its status then.

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
    outcome = f"state {status.state.value}" if status.state.has_ended else "done"
    log_operation(coordinator, "pause" if paused else "resume", outcome)
    if status.state.has_ended:
        raise state_error(status)
    return status


_DEPLOY = ", replace its program while it runs with 'penstock deploy'"
_RENAME = ", or give this one another application.id"


def remove_ended(
    application_id: str, where: str = "this Ray cluster", topology: str | None = None, otherwise: str = ""
) -> None:
    """End the actors that an ended application has left. Raises ApplicationStateError if it runs, with the differences
    if it runs another topology than the one that ``topology`` describes; ``otherwise`` names one more thing to do."""
    coordinator = find_coordinator(application_id)
    _refuse_live(application_id, coordinator, where, f"{_DEPLOY}{otherwise}{_RENAME}", topology)
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
    except RayError:  # the report that it runs does not need this
        return ""
    found = difference(running, topology) if running else ""
    return f". {found}" if found else ""


def stop_application(application_id: str, timeout_s: float, leave: bool = False) -> ApplicationStatus | None:
    """Drain, commit, end every actor of the application, and, with ``leave``, leave its consumer group.

    Returns the last status, also if another command stopped the application at the same time; None if it did not end in
    time and its actors were ended without a commit. Raises ApplicationStateError if its coordinator was ended by force
    while actors still worked.
    """
    coordinator = find_coordinator(application_id)
    try:
        if coordinator is None:
            return _left(application_id, leave)
        return _drained(application_id, coordinator, timeout_s, leave)
    finally:
        end_actors(application_id, coordinator)


def _drained(application_id: str, coordinator: Any, timeout_s: float, leave: bool) -> ApplicationStatus | None:
    log_operation(coordinator, "stop", "asked")
    deadline = time.monotonic() + timeout_s
    while (left_s := deadline - time.monotonic()) > 0:
        try:
            status: ApplicationStatus = ray.get(coordinator.stop.remote(leave), timeout=left_s)
        except GetTimeoutError:
            break
        except ActorUnavailableError:
            time.sleep(_AGAIN_S)  # it is being restarted, and stopping is idempotent
        except RayActorError:
            return _left(application_id, leave)
        else:
            if leave:
                _leave_group(application_id, coordinator)
            return status
    return None


def wait_until_left(coordinator: Any) -> None:
    """Wait while the coordinator of an application that has ended leaves the group, if another process, such as
    ``penstock stop --leave-group``, has ordered that: its actors must not be ended meanwhile."""
    with suppress(GetTimeoutError, RayActorError):
        ray.get(coordinator.has_left.remote(), timeout=_LEAVE_S)


def _leave_group(application_id: str, coordinator: Any) -> None:
    try:
        failed = ray.get(coordinator.leave_group.remote(), timeout=_LEAVE_S)
    except (GetTimeoutError, RayActorError) as error:
        failed = last_line(error) or f"no answer within {_LEAVE_S:.0f} s"
    if failed:
        raise _not_left(application_id, failed)


def _not_left(application_id: str, why: str) -> ApplicationStateError:
    return ApplicationStateError(
        f"application {application_id!r} has stopped and committed, but not left its consumer group: {why}. Its static "
        "member leaves when consumer.session.timeout.ms (45 s by default) has passed"
    )


def _left(application_id: str, leave: bool) -> ApplicationStatus:
    """The status of an application without coordinator: it stopped if no actor is left, since these end first. Without
    a coordinator nobody can ``leave`` the group, which is then an error."""
    if StreamActorHandle.find(application_id):
        raise ApplicationStateError(
            f"the coordinator of application {application_id!r} was ended by force while its actors worked; these are "
            "ended too: what they did since the last commit is done again at the next start"
        )
    if leave:
        raise _not_left(application_id, "its coordinator had ended before")
    return ApplicationStatus(application_id, ApplicationState.NOT_RUNNING, 0, (), {})


def end_actors(application_id: str, coordinator: Any | None) -> None:
    """End the actors that are left of an application: HTTP server, coordinator, stream actors, in this order.
    Idempotent. ``coordinator`` is the one that the caller has asked, None if there was none. If there is another one
    now, the application was started again, and all actors with its name belong to that start.
    """
    server, actors = find_http_actor(application_id), StreamActorHandle.find(application_id)
    # Looked for last: all that was found before is older than any coordinator that comes later.
    current = find_coordinator(application_id)
    if current is not None and current != coordinator:
        return
    if server is not None:
        stop_http(server)
    if current is not None:
        ray.kill(current)
        final_state.delete(current._actor_id.hex())
        wanted_count.delete(current._actor_id.hex())
        kept_rollout.delete(current._actor_id.hex())
        kept_operations.delete(current._actor_id.hex())
    for actor in actors:
        actor.kill()
