"""A driver's part of a roll-out: fetches the version that runs, and sends another one."""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

from ray.exceptions import RayTaskError

from penstock.actors.spec import ApplicationSpec
from penstock.cluster.client.actor_changes import ask_coordinator
from penstock.cluster.client.kafka_streams import KafkaStreams
from penstock.cluster.client.operations_log import log_operation
from penstock.cluster.programs.program_with_code import pickled_with_code, unpickled_program
from penstock.cluster.ray_cluster.named_actors import require_coordinator
from penstock.cluster.rollout import Deployment, RunningProgram
from penstock.common.errors import ApplicationStateError
from penstock.common.version import version


class Running(NamedTuple):
    """An application that runs, its program, and the highest number of a version so far."""

    coordinator: Any
    program: ApplicationSpec
    last: int


def running_version(application_id: str) -> Running:
    """Returns the version that runs under this id.

    Raises ApplicationStateError if none runs, and ConfigError if the program cannot be read here.
    """
    coordinator = require_coordinator(application_id)
    answer: RunningProgram = _asked(application_id, coordinator, "running_program")
    return Running(coordinator, unpickled_program(answer.program), answer.last)


def begin_rollout(running: Running, app: KafkaStreams, watch_s: float) -> int:
    """Roll out ``app`` in place of the version that runs; returns the number of the new version. Raises
    ApplicationStateError if that is refused, and ConfigError if the program cannot be sent."""
    wanted = Deployment(pickled_with_code(app._spec), running.last, version(), watch_s, uuid.uuid4().hex)
    refused: str | None = _asked(app.application_id, running.coordinator, "deploy", wanted)
    outcome = "begun" if refused is None else f"refused: {refused}"
    log_operation(running.coordinator, f"deploy version {running.last + 1}", outcome)
    if refused is not None:
        raise ApplicationStateError(f"the new version of application {app.application_id!r} is refused: {refused}")
    return running.last + 1


def _asked(application_id: str, coordinator: Any, method: str, *arguments: Any) -> Any:
    try:
        answer = ask_coordinator(coordinator, method, *arguments)
    except AttributeError:
        raise ApplicationStateError(
            f"application {application_id!r} runs under an older penstock, which cannot roll out a new version: stop "
            "it and start the new one"
        ) from None
    except RayTaskError as error:
        raise ApplicationStateError(f"application {application_id!r}: {error.cause or error}") from error
    return answer
