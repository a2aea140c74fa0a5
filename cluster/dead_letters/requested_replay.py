"""Carries out a replay that the HTTP server was asked for. Blocks: runs in a thread of its own."""

from __future__ import annotations

from penstock.cluster.dead_letters.letters import Filter
from penstock.cluster.dead_letters.notes import create_notes_topic
from penstock.cluster.dead_letters.plan import Route
from penstock.cluster.dead_letters.reading import all_letters
from penstock.cluster.dead_letters.replay import Replayer, plan_replay
from penstock.cluster.letter_side import REPLAY_MOST, ReplayReport, ReplayRequest
from penstock.common.errors import ConfigError
from penstock.common.offset_ranges import size_of
from penstock.kafka.clients import KafkaClients


def replayed(clients: KafkaClients, topic: str, request: ReplayRequest) -> ReplayReport:
    """Plan a replay, and carry it out unless only the plan is asked for. Raises ConfigError for a topic with more than
    :data:`~penstock.cluster.letter_side.REPLAY_MOST` offsets."""
    letters = all_letters(clients, topic)
    if size_of(letters.ranges) > REPLAY_MOST:
        raise ConfigError(
            f"topic {topic!r} has more than {REPLAY_MOST:,} offsets, which is too much for one request: run "
            f"'penstock dlq replay {topic}'"
        )
    wanted = Filter(exceptions=request.exceptions, topics=request.topics, places=request.places)
    route = Route(topic, clients.admin().topics())
    planned = plan_replay(letters, route, wanted, None, lambda _: None)
    plan, written = planned.plan, 0
    if plan.letters and not request.dry_run:
        create_notes_topic(clients.admin(), topic)
        replayer = Replayer(clients, planned.replay, plan, planned.letters)
        replayer.run(lambda _: None)
        written = replayer.written
    to, left = dict(+plan.written), dict(plan.left)
    return ReplayReport(topic, plan.read, plan.matching, to, left, tuple(plan.lines()), written)
