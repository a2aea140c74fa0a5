"""One commit of several tasks, in the order that a crash between any two steps cannot harm (docs/ARCHITECTURE.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from penstock.actors.clock import Clock
from penstock.actors.hosted_task import HostedTask
from penstock.actors.messages import CommitAnswer
from penstock.actors.steps import Steps, retry_while_unavailable
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.kafka.contracts import Admin, RecordProducer

_FLUSH_SLICE_S = 0.005
_ANSWER_SLICE_S = 0.005

AskToCommit = Callable[[Mapping[TopicPartition, CommittedOffset]], "Future[CommitAnswer]"]


def commit(
    tasks: Sequence[HostedTask],
    producer: RecordProducer,
    admin: Admin,
    ask: AskToCommit,
    clock: Clock,
) -> Steps[CommitAnswer]:
    """Flush downstream and changelogs, let Kafka take the offsets, then write the stores.

    A crash before the stores are written leaves them at the commit before, with its changelog offsets: the rest is
    restored. When the answer is a refusal the tasks must be closed: what they did does not count.
    """
    for hosted in tasks:
        for _ in hosted.task.prepare_commit():
            yield 0.0
    while not producer.flush(_FLUSH_SLICE_S):
        yield 0.0
    logged = {
        tp for hosted in tasks for store, tp in hosted.changelogs.items() if store not in hosted.source_changelogs
    }
    # Not asked of the consumer: on its connection a question waits until the fetch before it is answered.
    ends = yield from retry_while_unavailable(lambda: admin.end_offsets(logged), clock)
    offsets = {hosted.id: hosted.task.offsets() for hosted in tasks}
    asked = ask({tp: offset for of_task in offsets.values() for tp, offset in of_task.items()})
    while not asked.done():
        yield _ANSWER_SLICE_S
    answer = asked.result()
    if answer.accepted:
        for hosted in tasks:
            hosted.has_committed(offsets[hosted.id], ends, clock.wall_ms())
            yield 0.0
    return answer
