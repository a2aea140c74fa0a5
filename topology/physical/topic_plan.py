"""Internal topics: the number of partitions that each needs, and its configuration.

Every host that runs an application for the first time calls this module: the coordinator, and a backfill;
``kafka/internal_topics/creation.py`` then creates them. The rules are Kafka Streams' (``RepartitionTopics``,
``CopartitionedTopicsEnforcer``, ``InternalTopicManager``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.common.config import StreamsConfig
from penstock.common.errors import BrokerUnreachableError, InternalTopicError, MissingTopicError, TopologyError
from penstock.common.topics import NewTopic
from penstock.state.builders import is_restorable
from penstock.topology.physical.explicit_names import check_explicit_names
from penstock.topology.physical.pattern_sources import with_matched_topics
from penstock.topology.physical.task_plan import SubtopologyTasks, TaskPlan
from penstock.topology.physical.topology import SinkNode, Subtopology, Topology, changelog_topic, internal_topic

_EVERY = {"message.timestamp.type": "CreateTime"}
_REPARTITION = {**_EVERY, "cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": str(50 * 1024 * 1024)}


@dataclass(frozen=True)
class TopicPlan:
    """Everything that an application needs of Kafka: its tasks, and the internal topics that must exist with their
    partitions."""

    tasks: TaskPlan
    internal: tuple[NewTopic, ...]


def plan_topics(
    topology: Topology, config: StreamsConfig, existing: Mapping[str, int], none_may_match: bool = False
) -> TopicPlan:
    """Returns the plan, from the topics there are (name to number of partitions). ``none_may_match``: a pattern that no
    topic matches is no error, as for an application that runs; what reads it has no tasks.

    Raises MissingTopicError, InternalTopicError, TopologyError (co-partitioning), and BrokerUnreachableError for a
    topic whose partitions Kafka does not report at present.
    """
    if config.ensure_explicit_internal_resource_naming:
        check_explicit_names(topology)
    topology = with_matched_topics(topology, config.application_id, existing, none_may_match)
    _check_known(topology, config, existing)
    _check_external(topology, config, existing)
    counts = _repartition_counts(topology, config.application_id, existing)
    _copartition(topology, counts, existing)
    application_id = config.application_id
    names = {name: internal_topic(application_id, name) for name in topology.repartition_topics}
    tasks = TaskPlan(
        tuple(
            SubtopologyTasks(
                sub.id,
                {names.get(topic, topic): _count(topic, counts, existing) for topic in _topics(sub)},
                stateful=bool(sub.stores),
                logged=any(map(is_restorable, sub.stores)),
                in_memory=any(is_restorable(store) and not store.persistent for store in sub.stores),
            )
            for sub in topology.subtopologies
            if _topics(sub)
        ),
        frozenset(names.values()),
    )
    internal = (*_repartition_topics(names, counts, config), *_changelogs(topology, tasks, config))
    _check_existing(internal, existing)
    return TopicPlan(tasks, internal)


def _topics(sub: Subtopology) -> list[str]:
    return [topic for source in sub.sources for topic in source.topics]


def _written(topology: Topology) -> set[str]:
    sinks = (node for sub in topology.subtopologies for node in sub.nodes if isinstance(node, SinkNode))
    return {node.topic for node in sinks if isinstance(node.topic, str)}


def _letters(config: StreamsConfig) -> set[str]:
    """Returns the topic for dead letters: a bad record is not skipped before its letter is written."""
    topic = config.errors_dead_letter_queue_topic_name
    return set() if topic is None else {topic}


def _count(topic: str, counts: Mapping[str, int], existing: Mapping[str, int]) -> int:
    return counts[topic] if topic in counts else existing[topic]


def _check_known(topology: Topology, config: StreamsConfig, existing: Mapping[str, int]) -> None:
    """Raises BrokerUnreachableError if Kafka has no metadata of a needed topic now, as just after its creation."""
    application_id, subs = config.application_id, topology.subtopologies
    needed = {topic for sub in subs for topic in _topics(sub)} | _written(topology) | set(topology.global_topics)
    needed |= _letters(config)
    needed |= {internal_topic(application_id, name) for name in topology.repartition_topics}
    needed |= {changelog_topic(application_id, store) or "" for sub in subs for store in sub.stores}
    if unknown := sorted(topic for topic in needed if existing.get(topic) == 0):
        raise BrokerUnreachableError(
            f"application {application_id!r}: Kafka does not report at present which partitions topic "
            f"{unknown[0]!r} has; try again; if the error remains, check that its partitions have leaders"
        )


def _check_external(topology: Topology, config: StreamsConfig, existing: Mapping[str, int]) -> None:
    read = {topic for sub in topology.every_subtopology for topic in _topics(sub)}
    written = _written(topology)
    missing = sorted((read | written | _letters(config)) - set(topology.repartition_topics) - set(existing))
    if not missing:
        return
    of_letters = dict.fromkeys(_letters(config), "for dead letters")
    use = of_letters | dict.fromkeys(written, "written") | dict.fromkeys(read, "read")
    uses = ", ".join(f"{topic!r} ({use[topic]})" for topic in missing)
    commands = "\n".join(
        f"  penstock topic create {topic} --partitions 4 --bootstrap-servers {config.bootstrap_servers}"
        for topic in missing
    )
    what = "topic does" if len(missing) == 1 else "topics do"
    raise MissingTopicError(
        f"application {config.application_id!r}: the {what} not exist: {uses}. Only internal topics are created by "
        f"penstock; create yours first, for example with\n{commands}"
    )


def _repartition_counts(topology: Topology, application_id: str, existing: Mapping[str, int]) -> dict[str, int]:
    """Returns the partitions of each repartition topic: the user's number, or the largest count among the sources
    upstream, or what it has if nothing is upstream now."""
    counts = {name: topic.partitions for name, topic in topology.repartition_topics.items() if topic.partitions}
    upstream: dict[str, set[str]] = {name: set() for name in topology.repartition_topics}
    for sub in topology.subtopologies:
        for node in sub.nodes:
            if isinstance(node, SinkNode) and isinstance(node.topic, str) and node.topic in upstream:
                upstream[node.topic].update(_topics(sub))
    for name in (name for name, topics in upstream.items() if not topics):
        counts.setdefault(name, existing.get(internal_topic(application_id, name), 0))
    while len(counts) < len(upstream):
        known = counts.keys() | (existing.keys() - upstream.keys())
        open_topics = [name for name in upstream if name not in counts]
        # A topic that feeds itself in a circle takes the count of what enters the circle.
        ready = [name for name in open_topics if upstream[name] and upstream[name] <= known]
        ready = ready or [name for name in open_topics if upstream[name] & known]
        if not ready:
            raise TopologyError(
                f"the number of partitions of repartition topic {open_topics[0]!r} cannot be computed: no topic with a "
                "known number is upstream; give it one with Repartitioned.with_number_of_partitions"
            )
        for name in ready:
            counts[name] = max(_count(topic, counts, existing) for topic in upstream[name] & known)
    return counts


def _copartition(topology: Topology, counts: dict[str, int], existing: Mapping[str, int]) -> None:
    """Make every co-partition group agree. Raises TopologyError if topics or the user's numbers forbid it."""
    for group in topology.copartition_groups:
        external = {topic: existing[topic] for topic in sorted(group) if topic not in counts}
        inner = sorted(topic for topic in group if topic in counts)
        fixed = {topic: counts[topic] for topic in inner if topology.repartition_topics[topic].partitions}
        if len(set(external.values())) > 1:
            raise TopologyError(
                f"topics that are joined must have equally many partitions: {_listed(external)}; recreate one of them "
                "or send one side through repartition()"
            )
        bound = external or fixed
        if len(set(bound.values()) | set(fixed.values())) > 1:
            raise TopologyError(
                "topics that are joined must have equally many partitions, and the numbers given to repartition() do "
                f"not agree: {_listed({**external, **fixed})}"
            )
        agreed = max((bound or {topic: counts[topic] for topic in inner}).values(), default=0)
        for topic in inner:
            counts[topic] = agreed


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{topic!r} has {count}" for topic, count in counts.items())


def _repartition_topics(
    names: Mapping[str, str], counts: Mapping[str, int], config: StreamsConfig
) -> Iterable[NewTopic]:
    for name, full_name in names.items():
        yield _new_topic(full_name, counts[name], config, _REPARTITION, {})


def _changelogs(topology: Topology, tasks: TaskPlan, config: StreamsConfig) -> Iterable[NewTopic]:
    count = {sub.id: sub.tasks for sub in tasks.subtopologies}
    for sub in topology.subtopologies:
        for store in sub.stores:
            topic = changelog_topic(config.application_id, store)
            if topic is not None and store.source_topic is None and sub.id in count:
                longer = config.windowstore_changelog_additional_retention_ms
                defaults = {**_EVERY, **store.changelog_config(longer)}
                own = {**store.required_changelog_config(longer), **store.topic_config}
                yield _new_topic(topic, count[sub.id], config, defaults, own)


def _new_topic(
    name: str, partitions: int, config: StreamsConfig, defaults: Mapping[str, str], own: Mapping[str, str]
) -> NewTopic:
    everywhere = {key: str(value) for key, value in config.client_entries("topic.").items()}
    return NewTopic(name, partitions, config.replication_factor, {**defaults, **everywhere, **own})


def _check_existing(internal: Iterable[NewTopic], existing: Mapping[str, int]) -> None:
    """Raises InternalTopicError if a number differs. As in Kafka Streams, no internal topic grows with its sources,
    because its records would remain in their old partitions."""
    for topic in internal:
        there = existing.get(topic.name)
        if there is not None and there != topic.partitions:
            fixed, count = "", "1 partition" if there == 1 else f"{there} partitions"
            if topic.name.endswith("-repartition"):
                fixed = f"; or keep it at that by repartition(Repartitioned.with_number_of_partitions({there}))"
            raise InternalTopicError(
                f"internal topic {topic.name!r} has {count}, but the topology needs {topic.partitions}: a "
                "source topic has got partitions since it was created, or the topology has changed, and Kafka does not "
                "move records to the partitions where they would belong now. Reset the application ('penstock reset') "
                f"or start it under another application.id: both process the sources from the beginning{fixed}"
            )
