"""Plans the changes of ``penstock reset`` to topics and offsets, from a program or an id, and from the state of
Kafka."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from penstock.cli.reset_target import OffsetChange, Target, ToEarliest, ToLatest, changes
from penstock.cli.topic_read import Offsets
from penstock.common.config import StreamsConfig
from penstock.common.errors import ConfigError, MissingTopicError
from penstock.common.ids import TopicPartition
from penstock.common.shown import similar_to
from penstock.common.topics import has_internal_name
from penstock.kafka.backfill_note import note_group
from penstock.kafka.internal_topics.known_topics import topics_group
from penstock.topology.physical.pattern_sources import with_matched_topics
from penstock.topology.physical.topology import SinkNode, Topology, changelog_topic, internal_topic

_OTHER_TOPOLOGY = "not of this topology"
_NOT_NAMED = "not named by --internal-topics"


@dataclass(frozen=True)
class OwnTopics:
    """The topics of a program by their use. ``intermediate`` ones are written by it and read again."""

    inputs: frozenset[str]
    intermediate: frozenset[str]
    internal: frozenset[str]

    @classmethod
    def of(cls, topology: Topology, config: StreamsConfig, existing: Collection[str]) -> OwnTopics:
        """Returns the topics of ``topology``. Raises MissingTopicError if no topic matches a pattern."""
        topology = with_matched_topics(topology, config.application_id, existing)
        nodes = [node for sub in topology.subtopologies for node in sub.nodes]
        written = {node.topic for node in nodes if isinstance(node, SinkNode) and isinstance(node.topic, str)}
        read = {topic for sub in topology.subtopologies for source in sub.sources for topic in source.topics}
        read -= topology.repartition_topics.keys()
        stores = (store for sub in topology.subtopologies for store in sub.stores if store.source_topic is None)
        changelogs = {changelog_topic(config.application_id, store) for store in stores}
        repartition = {internal_topic(config.application_id, name) for name in topology.repartition_topics}
        internal = frozenset(name for name in changelogs | repartition if name is not None)
        return cls(frozenset(read - written), frozenset(read & written), internal)


@dataclass(frozen=True)
class Wanted:
    """The options of a reset; an empty list means the default."""

    input_topics: tuple[str, ...] = ()
    intermediate_topics: tuple[str, ...] = ()
    internal_topics: tuple[str, ...] = ()
    target: Target = field(default_factory=ToEarliest)


@dataclass(frozen=True)
class KafkaNow:
    """The state of Kafka: topics with their partitions, groups, and what the application's group has committed."""

    topics: Mapping[str, int]
    groups: frozenset[str]
    committed: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class ResetPlan:
    """The changes of a reset. ``left``: topics that stay although their names begin like those of the application, with
    the reasons. ``absent``: topics of the program that do not exist, so that they need no reset. ``by_name``: the
    topics to delete are known by their names alone, from no program."""

    application_id: str
    offsets: tuple[OffsetChange, ...]
    deleted: tuple[str, ...]
    left: Mapping[str, str]
    absent: tuple[str, ...] = ()
    by_name: bool = False

    def refuse_unasked(self) -> None:
        """Raise ConfigError if a user must check the list of topics before they are deleted."""
        if self.by_name and self.deleted:
            raise ConfigError(
                f"the id {self.application_id!r} alone does not determine the owner of the topics that begin with "
                f"'{self.application_id}-': name the program (MODULE:APP), or list those to delete: "
                f"--internal-topics {','.join(self.deleted)}"
            )


def plan_reset(application_id: str, own: OwnTopics | None, wanted: Wanted, now: KafkaNow, log: Offsets) -> ResetPlan:
    """Returns the plan; ``own`` is None if only the id is known. Raises ConfigError and MissingTopicError for topics
    that were named wrongly."""
    inputs, intermediate = _seek(application_id, own, wanted)
    for topic in (*wanted.input_topics, *wanted.intermediate_topics):
        if topic not in now.topics:
            raise MissingTopicError(
                f"there is no topic {topic!r}{similar_to(topic, now.topics)}: nothing was done ('penstock topic list' "
                "shows all)"
            )
    moved = [
        *changes(wanted.target, _partitions(inputs, now), now.committed, log),
        *changes(ToLatest(), _partitions(intermediate, now), now.committed, log),
    ]
    deleted, left = _internal(application_id, own, wanted, now, inputs | intermediate)
    absent = sorted((inputs | intermediate) - now.topics.keys())
    by_name = own is None and not wanted.internal_topics
    return ResetPlan(application_id, tuple(moved), tuple(sorted(deleted)), left, tuple(absent), by_name)


def _seek(application_id: str, own: OwnTopics | None, wanted: Wanted) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the input topics, and those that are skipped to their ends."""
    inputs, intermediate = frozenset(wanted.input_topics), frozenset(wanted.intermediate_topics)
    if both := sorted(inputs & intermediate):
        raise ConfigError(f"{both[0]!r} is named as an input and as an intermediate topic: it can be reset in one way")
    if own is None:
        return inputs, intermediate
    if unread := sorted((inputs | intermediate) - own.inputs - own.intermediate):
        read = ", ".join(map(repr, sorted(own.inputs | own.intermediate)))
        raise ConfigError(f"application {application_id!r} does not read {unread[0]!r}; it reads {read}")
    return inputs or own.inputs - intermediate, intermediate or own.intermediate - inputs


def _partitions(topics: Iterable[str], now: KafkaNow) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic in topics for number in range(now.topics.get(topic, 0))]


def _internal(
    application_id: str, own: OwnTopics | None, wanted: Wanted, now: KafkaNow, users: Collection[str]
) -> tuple[frozenset[str], dict[str, str]]:
    """Returns the internal topics to delete, and those that stay, with the reason."""
    named = frozenset(wanted.internal_topics)
    likely = {topic for topic in now.topics if topic.startswith(f"{application_id}-") and has_internal_name(topic)}
    likely -= set(users)
    others = {topic: owner for topic in sorted(likely) if (owner := _claimed(application_id, topic, now.groups))}
    sure = likely - others.keys() if own is None else own.internal & now.topics.keys()
    if wrong := sorted(named - sure - likely):
        known = ", ".join(sorted(sure | likely)) or "none"
        raise ConfigError(
            f"--internal-topics {wrong[0]}: not an internal topic of application {application_id!r}; those there are: "
            f"{known}"
        )
    left = dict.fromkeys(sorted((sure | likely) - named), _NOT_NAMED) if named else {}
    if not named and own is not None:
        left = dict.fromkeys(sorted(likely - sure), _OTHER_TOPOLOGY)
    mine = own.internal if own is not None else frozenset()
    left.update(
        {topic: f"of application {owner!r}, by its name" for topic, owner in others.items() if topic not in mine}
    )
    deleted = frozenset(named or sure)
    return deleted, {topic: why for topic, why in sorted(left.items()) if topic not in deleted}


def _claimed(application_id: str, topic: str, groups: Iterable[str]) -> str | None:
    """Returns the group of an application with a longer id whose topic this may be, too; None if there is none."""
    notes = {note_group(application_id), topics_group(application_id)}
    longer = [each for each in groups if each.startswith(f"{application_id}-") and each not in notes]
    return max((each for each in longer if topic.startswith(f"{each}-")), key=len, default=None)
