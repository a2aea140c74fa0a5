"""The actor that hosts the HTTP server, whose code is passed to it: ``cluster/`` knows no web framework."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import ray
from ray.exceptions import ActorDiedError, GetTimeoutError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from penstock.actors.process.process_watch import Process, own_process
from penstock.cluster.client.server_settings import ServerSettings
from penstock.cluster.names import NAMESPACE, http_actor_name
from penstock.cluster.queries.queries import StateQueries
from penstock.cluster.ray_cluster.named_actors import find_coordinator
from penstock.cluster.ray_cluster.ray_errors import last_line
from penstock.cluster.read_side import ReadSide
from penstock.common.errors import ApplicationStateError, StreamsError
from penstock.common.log import identify, logger, use_format

Serve = Callable[[ReadSide, ServerSettings, Callable[[str], None]], Awaitable[None]]
"""``serve(queries, settings, started)`` serves until cancelled; calls ``started(address)`` once it listens."""

_START_S = 60.0
_STOP_S = 10.0


class HttpActor:
    """The Ray actor of the HTTP server. It serves from its first moment, so that a restart by Ray is enough."""

    def __init__(self, application_id: str, serve: Serve, settings: ServerSettings) -> None:
        identify(application_id, "http")
        use_format(settings.log_format)
        self._application_id = application_id
        loop = asyncio.get_running_loop()
        self._address: asyncio.Future[str] = loop.create_future()
        queries = StateQueries(application_id)
        self._server = loop.create_task(self._serve(serve(queries, settings, self._started)))
        self._announcing: asyncio.Task[None] | None = None

    async def address(self) -> str:
        """Returns the address at which it listens, when it does. Raises the error that prevents it."""
        return await asyncio.shield(self._address)

    async def process(self) -> Process:
        """Returns its process: the coordinator asks now and then, and ends the process if it is unresponsive."""
        return own_process()

    async def known_address(self) -> str | None:
        """Returns the address at which it listens; None if it does not yet."""
        return self._address.result() if self._address.done() and not self._address.exception() else None

    async def stop(self) -> None:
        """Answer what is under way, then close."""
        self._server.cancel()
        await asyncio.wait({self._server})

    async def _serve(self, serving: Awaitable[None]) -> None:
        try:
            await serving
        except Exception as error:  # raised to callers of ``address``, and logged
            logger(__name__).error("HTTP server failed", error=str(error))
            if not self._address.done():
                self._address.set_exception(error)
            else:
                raise

    def _started(self, address: str) -> None:
        self._address.set_result(address)
        self._announcing = asyncio.get_running_loop().create_task(self._announce(address))

    async def _announce(self, address: str) -> None:
        coordinator = await asyncio.to_thread(find_coordinator, self._application_id)
        if coordinator is not None:  # otherwise the process that is starting the application sends it
            await coordinator.set_http_address.remote(address)


def start_http(application_id: str, settings: ServerSettings, serve: Serve) -> tuple[Any, str]:
    """Start the server of an application on this node; returns the actor and its address.

    Raises ConfigError if it cannot listen there, and ApplicationStateError if it cannot be started; then nothing of it
    is left.
    """
    here = ray.get_runtime_context().get_node_id()
    remote: Any = ray.remote(HttpActor).options(
        name=http_actor_name(application_id),
        namespace=NAMESPACE,
        lifetime="detached",
        num_cpus=0,
        max_restarts=-1,
        max_task_retries=-1,
        enable_task_events=False,
        scheduling_strategy=NodeAffinitySchedulingStrategy(here, soft=True),
    )
    try:
        actor = remote.remote(application_id, serve, settings)
    except ValueError as error:
        raise ApplicationStateError(
            f"application {application_id!r} is being started by another process: {error}"
        ) from error
    try:
        address: str = ray.get(actor.address.remote(), timeout=_START_S)
    except RayTaskError as error:
        ray.kill(actor)
        if isinstance(error.cause, StreamsError):
            raise error.cause from None
        raise
    except GetTimeoutError:
        ray.kill(actor)
        raise ApplicationStateError(
            f"the HTTP server of application {application_id!r} did not start in {_START_S:.0f} s"
        ) from None
    except RayError as error:  # its process or its node is lost, whatever ended it
        ray.kill(actor)
        raise ApplicationStateError(
            f"the HTTP server of application {application_id!r} cannot start in the Ray cluster: {last_line(error)}"
        ) from error
    except BaseException:  # Ctrl-C too: the actor is detached
        ray.kill(actor)
        raise
    return actor, address


def stop_http(actor: Any) -> None:
    """End this server: answers under way go out first."""
    try:
        ray.get(actor.stop.remote(), timeout=_STOP_S)
    except ActorDiedError:  # `penstock stop` ends it, and `penstock run`, which sees that, too
        pass
    except RayError as error:
        logger(__name__).warning("HTTP server did not stop cleanly", error=str(error))
    ray.kill(actor)
