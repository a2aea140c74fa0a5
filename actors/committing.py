"""One commit of several tasks, in the order that a crash between any two steps cannot harm (docs/ARCHITECTURE.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from penstock.actors.clock import Clock
from penstock.actors.hosted_task import HostedTask
from penstock.actors.messages import CommitAnswer
from penstock.actors.steps import Steps
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.kafka.contracts import RecordProducer

_FLUSH_SLICE_S = 0.005
_ANSWER_SLICE_S = 0.005

AskToCommit = Callable[[Mapping[TopicPartition, CommittedOffset]], "Future[CommitAnswer]"]


def commit(
    tasks: Sequence[HostedTask],
    running: Sequence[HostedTask],
    producer: RecordProducer,
    ask: AskToCommit,
    clock: Clock,
) -> Steps[CommitAnswer]:
    """Of ``tasks``, which are some of those that are ``running``: flush downstream and changelogs, let Kafka take the
    offsets, then write the stores.

    A crash before the stores are written leaves them at the commit before, with its changelog offsets: the rest is
    restored. When the answer is a refusal the tasks must be closed: what they did does not count.
    """
    for hosted in tasks:
        for _ in hosted.task.prepare_commit():
            yield 0.0
    mark = producer.mark()
    while not mark.delivered():
        producer.flush(_FLUSH_SLICE_S)
        yield 0.0
    for hosted in running:
        hosted.has_logged(mark.ends())
    offsets = {hosted.id: hosted.task.offsets() for hosted in tasks}
    asked = ask({tp: offset for of_task in offsets.values() for tp, offset in of_task.items()})
    while not asked.done():
        yield _ANSWER_SLICE_S
    answer = asked.result()
    if answer.accepted:
        for hosted in tasks:
            hosted.has_committed(offsets[hosted.id], clock.wall_ms())
            yield 0.0
    return answer
