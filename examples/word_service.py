"""A service over HTTP that answers from its own state: the word count, as JSON.

``uvicorn examples.word_service:service`` starts and stops the application together with the service. Then ``curl
127.0.0.1:8000/words/import`` shows the count of a word. penstock's own HTTP API is still there, at
``application.server``. Write a service of your own if the answers must have a certain form.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from starlette.concurrency import run_in_threadpool

import penstock as ps
from examples.word_count import app


@asynccontextmanager
async def running(service: FastAPI) -> AsyncIterator[None]:
    """Starts the application before the first request, and closes it after the last."""
    await run_in_threadpool(app.start)
    try:
        yield
    finally:
        await run_in_threadpool(app.close)


service = FastAPI(lifespan=running)


@service.get("/words/{word}")
def count_of(word: str) -> dict[str, str | int]:
    """Returns the count of ``word``. Answers 503 while the task that has it restores or moves."""
    try:
        count = app.store("counts").get(word)
    except ps.TaskNotReadyError as error:
        raise HTTPException(503, str(error), {"Retry-After": "1"}) from error
    return {"word": word, "count": count or 0}
