"""Routes to the dead letters of the application: the newest ones, one, and replays."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import orjson
from fastapi import FastAPI, Path, Query
from starlette.responses import Response

from penstock.api.asking import (
    APPLICATION,
    INVALID,
    KAFKA_REFUSES,
    READS_BUSY,
    WITH_BODY,
    App,
    Topic,
    check,
    json_response,
)
from penstock.api.page.letter_bodies import LetterBody, LettersBody, ReplayBody, ReplayRequestBody
from penstock.api.page.record_json import looked_members, record_members, shown_members
from penstock.api.problems import ProblemError, documented, invalid_request
from penstock.cluster.letter_side import LETTERS_MOST, ReplayRequest, ShownLetter, ShownLetters
from penstock.cluster.read_side import ReadSide

_LETTERS = APPLICATION + "/dead-letters"
_NONE = "No such application; or it has no dead letter topic: errors.dead.letter.queue.topic.name"
_RESPONSES = documented({404: _NONE, 422: INVALID, 500: KAFKA_REFUSES, 503: READS_BUSY})
_LARGEST_OFFSET = (1 << 63) - 1
_LARGEST_PARTITION = (1 << 31) - 1


def add_to(app: FastAPI, queries: ReadSide) -> None:
    """Add these routes to ``app``."""
    _looking(app, queries)

    @app.post(
        _LETTERS + "/replay",
        tags=["dead letters"],
        response_model=ReplayBody,
        responses={**_RESPONSES, **WITH_BODY},
    )
    async def replay(app: App, body: ReplayRequestBody) -> Response:
        """Write the records of dead letters again, each once, to the topics and partitions that they came from, as
        ``penstock dlq replay`` does. A replay that takes long is answered with 503, and continues; the same request
        asks for what is left."""
        check(queries, app)
        if not (body.places or body.exceptions or body.topics):
            raise invalid_request([("body", "Give places, exceptions or topics")])
        request = ReplayRequest(tuple(body.places), tuple(body.exceptions), tuple(body.topics), body.dry_run)
        report = await queries.letters.replay(request)
        return json_response({name: getattr(report, name) for name in ReplayBody.model_fields})


def _looking(app: FastAPI, queries: ReadSide) -> None:
    @app.get(_LETTERS, tags=["dead letters"], response_model=LettersBody, responses=_RESPONSES)
    async def letters(
        app: App, limit: Annotated[int, Query(ge=1, le=LETTERS_MOST, description="Number of letters")] = 20
    ) -> Response:
        """The newest dead letters, by the timestamps of their records. Long texts are cut."""
        check(queries, app)
        found = await queries.letters.newest(limit)
        return Response(await asyncio.to_thread(_letters_json, found), media_type="application/json")

    @app.get(
        _LETTERS + "/{topic}/{partition}/{offset}",
        tags=["dead letters"],
        response_model=LetterBody,
        responses={**_RESPONSES, **documented({404: f"{_NONE}; or there is no such letter"})},
    )
    async def letter(
        app: App,
        topic: Topic,
        partition: Annotated[int, Path(ge=0, le=_LARGEST_PARTITION)],
        offset: Annotated[int, Path(ge=0, le=_LARGEST_OFFSET)],
    ) -> Response:
        """One dead letter, with its stack trace up to 64 KiB."""
        check(queries, app)
        found = await queries.letters.letter(topic, partition, offset)
        if found is None:
            detail = f"topic {topic!r} has no letter at {partition}@{offset}"
            raise ProblemError(404, "absent-letter", "There is no such letter", detail)
        return Response(await asyncio.to_thread(orjson.dumps, _letter_members(found)), media_type="application/json")


def _letters_json(found: ShownLetters) -> bytes:
    letters, looked = map(_letter_members, found.letters), map(looked_members, found.looked)
    body = {"topic": found.topic, "letters": list(letters), "looked": list(looked), "stopped": found.stopped}
    return orjson.dumps(body)


def _letter_members(letter: ShownLetter) -> dict[str, Any]:
    record = record_members(letter.record)
    raw_key, raw_value = record.pop("key"), record.pop("value")
    error = None
    if letter.exception is not None:
        error = {"exception": letter.exception, "message": letter.message, "stacktrace": letter.stacktrace}
    origin = {name: getattr(letter.origin, name) for name in ("topic", "partition", "offset")}
    return {
        **record,
        "error": error,
        "origin": origin,
        "key": shown_members(letter.key),
        "value": shown_members(letter.value),
        "raw_key": raw_key,
        "raw_value": raw_value,
        "replays": [{"topic": each.topic, "at_ms": each.at_ms} for each in letter.replays],
        "replay_count": letter.replay_count,
    }
