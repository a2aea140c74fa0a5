"""Finds what a coordinator begins with: the plan of its tasks, and the topics that they need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

from structlog.stdlib import BoundLogger

from penstock.actors.spec import ApplicationSpec
from penstock.cluster.watchers.topic_watch import ONE_AFTER_ANOTHER_S
from penstock.common.errors import BrokerUnreachableError, TopologyError
from penstock.kafka.clients import KafkaClients
from penstock.kafka.internal_topics.creation import ensure_topics
from penstock.kafka.internal_topics.known_topics import LostTopicError, without_lost_topics
from penstock.kafka.internal_topics.topic_note import write_note
from penstock.topology.physical.topic_plan import TopicPlan, plan_topics

_BROKER_AGAIN_S = 1.0
LISTED_WITHIN_S = 30.0
"""The time in which a broker that has just started lists all topics; tasks wait as long for a missing topic."""


async def first_plan(spec: ApplicationSpec, clients: KafkaClients, restarted: bool, log: BoundLogger) -> TopicPlan:
    """Create the internal topics and plan the tasks, however long no broker answers.

    Raises StreamsError for topics that do not fit the program, or are lost. A broker that has just started
    gets time to list internal topics; if the coordinator was ``restarted``, topics get time to gain partitions.
    """
    clock = asyncio.get_running_loop().time
    # Its actors may work while topics get partitions one after another, as if there had been no restart.
    patient_until = clock() + (ONE_AFTER_ANOTHER_S if restarted else 0.0)
    # The error advises a reset. A start that gives it too early costs the state, one that waits costs half a minute.
    listed_until = clock() + LISTED_WITHIN_S
    planned = partial(plan_topics, spec.topology, spec.config, none_may_match=restarted)
    while True:
        try:
            return await asyncio.to_thread(_planned, spec.application_id, clients, planned)
        except BrokerUnreachableError as error:
            log.warning("waiting for the broker", error=str(error))
        except LostTopicError as error:
            if clock() >= listed_until:
                raise
            log.warning("waiting for internal topics that the broker does not list", error=str(error))
        except TopologyError as error:
            if clock() >= patient_until:
                raise
            log.warning("waiting for joined topics to gain partitions", error=str(error))
        await asyncio.sleep(_BROKER_AGAIN_S)


def _planned(application_id: str, clients: KafkaClients, plan: Callable[[Mapping[str, int]], TopicPlan]) -> TopicPlan:
    admin = clients.admin()
    planned = ensure_topics(admin, without_lost_topics(admin, application_id, plan))
    write_note(application_id, planned.internal, planned.tasks, clients)
    return planned
