"""Decides which versions of a program may run side by side: pure comparisons."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.actors.spec import ApplicationSpec
from penstock.cluster.programs.shared_formats import differences, shared_formats
from penstock.topology.physical.topic_plan import TopicPlan, plan_topics

OF_ACTORS = frozenset(
    {
        "buffered.records.per.partition",
        "commit.interval.ms",
        "default.key.serde",
        "default.timestamp.extractor",
        "default.value.serde",
        "deserialization.exception.handler",
        "dsl.store.format",
        "ensure.explicit.internal.resource.naming",
        "errors.dead.letter.queue.topic.name",
        "log.summary.interval.ms",
        "max.task.idle.ms",
        "processing.exception.handler",
        "processing.exception.handler.global.enabled",
        "processor.wrapper.class",
        "production.exception.handler",
        "state.cleanup.delay.ms",
        "statestore.cache.max.bytes",
        "statestore.memory.max.bytes",
        "topology.optimization",
        "window.idle.advance.ms",
    }
)
"""Settings that the tasks alone read: a new version may have others. If they change a store or a topic between
sub-topologies, the comparison of these finds it."""


def refusal(running: ApplicationSpec, new: ApplicationSpec, existing: Mapping[str, int]) -> str | None:
    """Returns why ``new`` cannot take over the tasks of ``running`` one by one; None if it can.

    Everything that both versions use while they run side by side must have the same form. ``existing``: the topics in
    Kafka with their numbers of partitions. Raises StreamsError if ``new`` could not be started at all.
    """
    if new.application_id != running.application_id:
        return f"it is application {new.application_id!r}, and {running.application_id!r} runs"
    before, after = running.config.entries(), new.config.entries()
    if changed := sorted(key for key in before.keys() | after.keys() if _differs(key, before, after)):
        return f"the whole application shares these settings, which differ: {', '.join(changed)}"
    was = plan_topics(running.topology, running.config, existing, none_may_match=True)
    now = plan_topics(new.topology, new.config, existing, none_may_match=True)
    if was.tasks != now.tasks:
        return "its tasks differ: they read other topics, or have stores of other kinds"
    if _internal(was) != _internal(now):
        return "it has other internal topics"
    formats = shared_formats(running.topology, running.config), shared_formats(new.topology, new.config)
    if changed := differences(*formats):
        return f"both versions would use these at the same time, and their forms differ: {'; '.join(changed)}"
    return None


def _differs(key: str, before: Mapping[str, object], after: Mapping[str, object]) -> bool:
    return key not in OF_ACTORS and before.get(key) != after.get(key)


def _internal(plan: TopicPlan) -> dict[str, int]:
    return {topic.name: topic.partitions for topic in plan.internal}
