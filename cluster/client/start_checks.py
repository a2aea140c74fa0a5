"""Finds, before a start, errors that would end an application soon after it."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import ray

from penstock.actors.spec import ApplicationSpec
from penstock.cluster.coordinator_shell.first_plan import LISTED_WITHIN_S
from penstock.cluster.programs.pickled_program import pickled_program
from penstock.cluster.ray_cluster.ray_clusters import named_address
from penstock.common.config import StreamsConfig
from penstock.common.errors import BrokerUnreachableError, ConfigError, ObjectStoreError
from penstock.common.log import logger
from penstock.kafka.backfill_note import refuse_unfinished_backfill
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import Admin
from penstock.kafka.internal_topics.known_topics import LostTopicError, without_lost_topics
from penstock.kafka.settings import session_timeout_ms, transaction_timeout_ms
from penstock.objects.storage import ObjectLocation, require_conditional_writes
from penstock.tasks.calls.order import unwrapped
from penstock.topology.physical.operators.calls import CallOperator
from penstock.topology.physical.topic_plan import TopicPlan, plan_topics
from penstock.topology.physical.topology import Topology

_SESSION = "session.timeout.ms"
_LIST_AGAIN_S = 0.5


def check_application(spec: ApplicationSpec, clients: ConfluentClients) -> None:
    """Raise the StreamsErrors that a start would raise about the program, ``state.dir``, topics and clients."""
    check_registry(spec.config)
    pickled_program(spec)
    # In another cluster the directory is on other machines.
    if not ray.is_initialized() and named_address() is None:
        check_state_dir(spec.config.state_dir)
    admin = clients.admin()
    check_topics(spec, admin)
    check_session_timeout(spec.config, admin)
    if spec.config.clients:
        clients.try_out()
    check_checkpoints(spec.config)
    if spec.config.processing_guarantee == "exactly_once_v2":
        warn_of_long_calls(spec.topology, transaction_timeout_ms(clients.producer_overrides))


def warn_of_long_calls(topology: Topology, longest_ms: int) -> None:
    """Log the operators whose calls out may last longer than a transaction, which is aborted after ``longest_ms``."""
    nodes = {node.name: node for part in topology.every_subtopology for node in part.nodes}
    for name, node in nodes.items():
        operator = unwrapped(node)
        if isinstance(operator, CallOperator) and operator.calls.timeout_ms >= longest_ms:
            what = "calls out may last longer than a transaction"
            logger(__name__).warning(
                what, operator=name, timeout_ms=operator.calls.timeout_ms, transaction_timeout_ms=longest_ms
            )


def check_registry(config: StreamsConfig) -> None:
    """Raise ConfigError for a schema registry in memory: each actor would have one of its own, and give other ids."""
    url = str(config.serde_settings.get("schema.registry.url") or "")
    if url.startswith("mock://"):
        raise ConfigError(
            f"schema.registry.url is {url!r}, a registry in the memory of each process: no other actor could read what "
            "one has written, nor could it itself after a restart. Use it with TopologyTestDriver, and give a running "
            "application the address of a registry, such as http://localhost:8081"
        )


def check_topics(spec: ApplicationSpec, admin: Admin) -> None:
    """Raise StreamsError for topics that do not fit the program or are lost, for settings of internal topics that the
    brokers refuse, and for a backfill that is half done. A broker that has just started gets LISTED_WITHIN_S to list
    the topics, as at a start."""
    existing, planned = _planned(spec, admin)
    admin.try_topics([topic for topic in planned.internal if topic.name not in existing])
    refuse_unfinished_backfill(admin, spec.application_id, planned.tasks.reads)


def _planned(spec: ApplicationSpec, admin: Admin) -> tuple[dict[str, int], TopicPlan]:
    """Returns the topics that the broker lists, and the plan that follows from them."""
    plan = without_lost_topics(admin, spec.application_id, partial(plan_topics, spec.topology, spec.config))
    listed_until = time.monotonic() + LISTED_WITHIN_S
    while True:
        existing = admin.topics()
        try:
            return existing, plan(existing)
        except (BrokerUnreachableError, LostTopicError) as error:
            if time.monotonic() >= listed_until:
                raise
            logger(__name__).warning("waiting for topics that the broker does not list", error=str(error))
        time.sleep(_LIST_AGAIN_S)


def check_session_timeout(config: StreamsConfig, admin: Admin) -> None:
    """Raise ConfigError for a session time-out that no broker takes, if brokers let this client see their limits."""
    entries = config.client_entries("consumer.")
    if entries.get(_SESSION) is None:
        return
    wanted = session_timeout_ms(entries)
    limits = admin.broker_configs()
    least, most = (limits.get(f"group.{which}.{_SESSION}") for which in ("min", "max"))
    if (least is not None and wanted < int(least)) or (most is not None and wanted > int(most)):
        raise ConfigError(
            f"configuration key 'consumer.{_SESSION}': the brokers accept {least} to {most} ms (group.min.{_SESSION}, "
            f"group.max.{_SESSION}), not {wanted}"
        )


def check_checkpoints(config: StreamsConfig) -> None:
    """Raise ConfigError or ObjectStoreError if checkpoints cannot be stored below ``state.checkpoint.uri``: the URL or
    a setting is wrong, the storage does not answer or refuses the credentials, or it has no conditional writes."""
    uri = config.state_checkpoint_uri
    if uri is None:
        return
    what = "configuration key 'state.checkpoint.uri'"
    if "://" not in uri and not uri.startswith("/"):
        raise ConfigError(f"{what}: {uri!r} is a relative path: give s3://…, gs://…, az://…, or an absolute path")
    try:
        require_conditional_writes(ObjectLocation(uri, config.object_store_settings).open())
    except ConfigError as error:
        raise ConfigError(f"{what}: {error}. Its settings are the keys that begin with 'object.store.'") from error
    except ObjectStoreError as error:
        raise ObjectStoreError(
            f"{what}: {error}. Check the URL, the settings that begin with 'object.store.' and the credentials; or "
            "leave the key out: then state is restored from its changelogs alone"
        ) from error


def check_state_dir(state_dir: Path) -> None:
    """Raise ConfigError if this process cannot write in ``state_dir``, or cannot make it."""
    what = f"configuration key 'state.dir': {str(state_dir)!r} cannot be written"
    try:
        there = next(each for each in (state_dir, *state_dir.absolute().parents) if each.exists())
    except OSError as error:
        raise ConfigError(f"{what}: {error}") from error
    if not there.is_dir():
        raise ConfigError(f"{what}: {str(there)!r} is not a directory")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ConfigError(
            f"{what}: {str(there)!r} is read-only, or belongs to another user. Give a directory on a local disk that "
            "the user of this process may write"
        )
