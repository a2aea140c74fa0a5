"""Notices source topics that get partitions, come or go while the application runs, and plans the tasks again.

As in Kafka Streams, new tasks start if no internal topic has to grow for them. An internal topic with too few
partitions for the new plan is an error, since Kafka does not move its records to the partitions that they belong to
then.

The tasks of a deleted topic that matched a pattern end, and the others continue. A topic that the program names must
exist: if it stays away, its reader, or the group's member, ends the application.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.common.config import StreamsConfig
from penstock.common.errors import TopologyError
from penstock.common.ids import TopicPartition
from penstock.common.log import logger
from penstock.kafka.internal_topics.creation import TopicAdmin
from penstock.kafka.internal_topics.known_topics import WAYS_OUT
from penstock.topology.physical.pattern_sources import with_matched_topics
from penstock.topology.physical.task_plan import TaskPlan
from penstock.topology.physical.topic_plan import plan_topics
from penstock.topology.physical.topology import Topology, changelog_topic

_REFRESH = "topic.metadata.refresh.interval.ms"
_CHECK_EACH_S = 5.0
"""Seconds between checks: users are warned of a lost topic before its reader ends the application, after 30 s."""
_GONE_AFTER_S = 2.0
"""Seconds that a topic must be away before it counts as deleted."""
_GIVEN_UP_AFTER_S = 30.0
_LOOK_AGAIN_S = 1.0
ONE_AFTER_ANOTHER_S = 30.0
"""Seconds for which topics that are joined may differ: they get their partitions one after another."""


class TopicWatch:
    """Compares the topics in Kafka with a plan. ``clock`` gives seconds. One thread at a time."""

    def __init__(
        self, topology: Topology, config: StreamsConfig, admin: Callable[[], TopicAdmin], clock: Callable[[], float]
    ) -> None:
        self.missing: str | None = None
        """Describes the topics that are gone, changelogs and repartition topics too, and what to do; None while all
        are there, except those of a pattern."""
        self._topology = topology
        self._config = config
        self._admin = admin
        self._client: TopicAdmin | None = None
        self._answered = False
        self._clock = clock
        self._next_check = clock()
        self._changelogs = {
            topic
            for sub in topology.subtopologies
            for store in sub.stores
            if store.source_topic is None and (topic := changelog_topic(config.application_id, store)) is not None
        }
        self._seen: set[str] = set()  # the changelogs that have been there
        self._differ_since: float | None = None
        self._away_since: dict[str, float] = {}
        self._orphaned: frozenset[TopicPartition] = frozenset()
        sources = [source for sub in topology.subtopologies for source in sub.sources]
        self._named = {topic for source in sources if source.pattern is None for topic in source.topics}
        # At least as often as the group's member looks, so that both know of it at the same time.
        asked_ms = config.client_entries("consumer.").get(_REFRESH, _CHECK_EACH_S * 1000)
        self._check_each_s = max(_LOOK_AGAIN_S, min(_CHECK_EACH_S, float(asked_ms) / 1000))
        self._log = logger(__name__).bind(application=config.application_id)

    def due(self, unplanned: bool, orphaned: frozenset[TopicPartition] = frozenset()) -> bool:
        """Returns True if it is time to check: every 5 s, or as often as the group's member looks if that is more often
        (``consumer.topic.metadata.refresh.interval.ms``). It is time at once if partitions are ``unplanned`` (the group
        assigns them, but no task reads them), or if other partitions than before are ``orphaned`` (the group assigns
        them, but not all others that their task reads)."""
        changed, self._orphaned = orphaned != self._orphaned, orphaned
        return unplanned or changed or self._clock() >= self._next_check

    def check(self, plan: TaskPlan) -> TaskPlan | None:
        """Returns the new plan if a source topic has more partitions than in ``plan``, or a topic matches a source's
        pattern that is not in it, or one that matched is gone; else None.

        Raises InternalTopicError when an internal topic has too few partitions for the new plan, TopologyError when
        topics that are joined still differ after ONE_AFTER_ANOTHER_S, another StreamsError when Kafka cannot be asked
        or does not know a topic. The old plan then remains in force.
        """
        self._next_check = self._clock() + self._check_each_s
        if self._client is None or not self._answered:
            # The client that got no answer may itself be stuck (``kafka/fetch_watch.py``).
            self._client = self._admin()
        self._answered = False
        existing = self._client.topics()
        self._answered = True
        self._look_for_missing(plan, existing)
        if gone := self._gone(plan, existing):
            self._log.warning("source topics deleted, continuing without them", topics=sorted(gone))
            return plan.without(gone)
        if not _grown(plan, existing) and not self._new_topics(plan, existing):
            self._differ_since = None
            return None
        try:
            planned = plan_topics(self._topology, self._config, existing, none_may_match=True).tasks
        except TopologyError as error:
            now = self._clock()
            self._differ_since = now if self._differ_since is None else self._differ_since
            if now - self._differ_since >= ONE_AFTER_ANOTHER_S:
                raise
            self._log.warning("waiting for joined topics to gain partitions", error=str(error))
            return None
        self._differ_since = None
        return planned

    def _look_for_missing(self, plan: TaskPlan, existing: dict[str, int]) -> None:
        self._seen |= self._changelogs & existing.keys()
        needed = {topic for topic in plan.topics if self._must_be_there(topic, plan)} | self._seen
        missing = sorted(needed - existing.keys())
        if not missing:
            self.missing = None
            return
        self._next_check = self._clock() + _LOOK_AGAIN_S
        several = len(missing) > 1
        gone = (
            f"{'topics' if several else 'topic'} {', '.join(map(repr, missing))} {'do' if several else 'does'} not "
            "exist any more"
        )
        internal = (plan.repartition_topics | self._changelogs).intersection(missing)
        what_to_do = (
            f"stop the application; do not create the topic by hand, because its content is lost. Then {WAYS_OUT}"
            if internal
            else f"its reader waits {_GIVEN_UP_AFTER_S:.0f} s for it, then the application ends: create it again, "
            "and reset the application if its records were deleted"
        )
        if self.missing is None:
            self._log.error("topic lost", topics=missing, what_to_do=what_to_do)
        self.missing = f"{gone}; {what_to_do}"

    def _must_be_there(self, topic: str, plan: TaskPlan) -> bool:
        return topic in self._named or topic in plan.repartition_topics

    def _gone(self, plan: TaskPlan, existing: dict[str, int]) -> set[str]:
        """Returns the topics of patterns that have been away for long enough."""
        away = set(plan.topics) - plan.repartition_topics - self._named - existing.keys()
        now = self._clock()
        self._away_since = {topic: self._away_since.get(topic, now) for topic in away}
        if away:
            self._next_check = now + _LOOK_AGAIN_S
        return {topic for topic, since in self._away_since.items() if now - since >= _GONE_AFTER_S}

    def _new_topics(self, plan: TaskPlan, existing: dict[str, int]) -> bool:
        matched = with_matched_topics(self._topology, self._config.application_id, existing, none_may_match=True)
        topics = {topic for sub in matched.subtopologies for source in sub.sources for topic in source.topics}
        # A topic without partitions is one that has just been created.
        return any(existing.get(topic, 0) > 0 for topic in topics - set(plan.topics))


def _grown(plan: TaskPlan, existing: dict[str, int]) -> bool:
    planned = {topic: count for sub in plan.subtopologies for topic, count in sub.topics.items()}
    return any(
        existing.get(topic, 0) > count for topic, count in planned.items() if topic not in plan.repartition_topics
    )
