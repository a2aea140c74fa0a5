"""Routes to the topics of the application: their names, their newest records, and the keys of these."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import FastAPI, Query
from starlette.responses import Response

from penstock.api.asking import (
    APPLICATION,
    INVALID,
    KAFKA_REFUSES,
    READS_BUSY,
    UNKNOWN_APPLICATION,
    App,
    Topic,
    check,
    json_response,
)
from penstock.api.page.record_bodies import KeyCountsBody, PeekBody, TopicsBody
from penstock.api.page.record_json import key_counts_json, peek_json
from penstock.api.problems import documented
from penstock.cluster.read_side import ReadSide
from penstock.cluster.record_side import PEEK_MOST

_TOPICS = APPLICATION + "/topics"
_UNKNOWN_TOPIC = (
    "No such application; or it neither reads nor writes the topic: see ``known_topics``; or Kafka has no such topic"
)


def add_to(app: FastAPI, queries: ReadSide) -> None:
    """Add these routes to ``app``."""

    @app.get(
        _TOPICS,
        tags=["topics"],
        response_model=TopicsBody,
        responses=documented({404: UNKNOWN_APPLICATION, 422: INVALID, 503: READS_BUSY}),
    )
    async def topics(app: App) -> Response:
        """The topics that the application reads and writes: its sources, sinks, repartition topics and changelogs."""
        check(queries, app)
        uses = await queries.records.topics()
        return json_response({"topics": [{"name": name, "use": uses[name]} for name in sorted(uses)]})

    @app.get(
        _TOPICS + "/{topic}/peek",
        tags=["topics"],
        response_model=PeekBody,
        responses=documented({404: _UNKNOWN_TOPIC, 422: INVALID, 500: KAFKA_REFUSES, 503: READS_BUSY}),
    )
    async def peek(
        app: App,
        topic: Topic,
        limit: Annotated[int, Query(ge=1, le=PEEK_MOST, description="Number of records")] = 20,
    ) -> Response:
        """The newest records of a topic that the application reads or writes, decoded by its serdes. Read from Kafka,
        without a consumer group; one topic at a time is read. Keys and values of more than 64 KiB are not decoded."""
        check(queries, app)
        found = await queries.records.peek(topic, limit)
        return Response(await asyncio.to_thread(peek_json, found), media_type="application/json")

    @app.get(
        _TOPICS + "/{topic}/keys",
        tags=["topics"],
        response_model=KeyCountsBody,
        responses=documented({404: _UNKNOWN_TOPIC, 422: INVALID, 500: KAFKA_REFUSES, 503: READS_BUSY}),
    )
    async def keys(
        app: App,
        topic: Topic,
        partition: Annotated[int | None, Query(ge=0, description="Only this partition")] = None,
    ) -> Response:
        """The most frequent keys of the newest 1000 records of a topic, by timestamp, or of one partition. A key that
        has most of them has one task busy, and no number of partitions or actors spreads it. Read as by ``peek``."""
        check(queries, app)
        found = await queries.records.keys(topic, partition)
        return Response(await asyncio.to_thread(key_counts_json, found), media_type="application/json")
