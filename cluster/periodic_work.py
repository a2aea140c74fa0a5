"""What a coordinator does again and again, as long as it works."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from structlog.stdlib import BoundLogger

from penstock.cluster.dispatch import Dispatcher
from penstock.cluster.events import ApplicationFailed, TasksPlanned
from penstock.cluster.membership import Membership
from penstock.cluster.topic_watch import TopicWatch
from penstock.common.errors import (
    BrokerUnreachableError,
    InternalTopicError,
    KafkaRefusedError,
    StreamsError,
    TopologyError,
)

TOPICS = "check source topics"


async def repeat(interval_s: float, what: str, work: Callable[[], Coroutine[Any, Any, None]], log: BoundLogger) -> None:
    """Do it, whatever comes of it, wait, and do it again."""
    while True:
        try:
            await work()
        except Exception as error:  # the next time may be better, and nothing else must end with it
            log.error("periodic work failed, retrying", what=what, exc_info=error)
        await asyncio.sleep(interval_s)


async def check_topics(
    watch: TopicWatch,
    dispatcher: Dispatcher,
    membership: Membership | None,
    failed_by: Callable[[BaseException], ApplicationFailed],
    broker_is_away: Callable[[], bool],
    log: BoundLogger,
) -> None:
    """Plan anew if a source topic has changed. ``failed_by`` is called in another thread; that no broker answers is
    told elsewhere."""
    machine = dispatcher.machine
    if not watch.due(bool(machine.unplanned), machine.orphaned):
        return
    try:
        plan = await asyncio.to_thread(watch.check, machine.plan)
    except (InternalTopicError, TopologyError) as error:
        dispatcher.feed(await asyncio.to_thread(failed_by, error))
    except StreamsError as error:
        if not (isinstance(error, BrokerUnreachableError | KafkaRefusedError) and broker_is_away()):
            log.warning("periodic work failed, retrying", what=TOPICS, error=str(error))
    else:
        if plan is not None:
            log.info("source topics changed", tasks=len(plan.partitions))
            if membership is not None:
                membership.subscribe(plan.topics)
            dispatcher.feed(TasksPlanned(plan))
