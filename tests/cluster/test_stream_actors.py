"""Calls to stream actors; the actor is a stand-in, no Ray runs."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

import pytest
from ray.exceptions import ActorUnavailableError

from penstock.cluster.stream_actors import StreamActorHandle


class Flaky:
    """A method of a Ray actor that cannot be reached the first time."""

    def __init__(self) -> None:
        self.calls = 0

    def remote(self, *arguments: object) -> Flaky:
        return self

    def future(self) -> Future[None]:
        self.calls += 1
        answer: Future[None] = Future()
        if self.calls == 1:
            answer.set_exception(ActorUnavailableError("the network hesitates", b"\0" * 16))
        else:
            answer.set_result(None)
        return answer


class FlakyActor:
    def __init__(self) -> None:
        self.start = self.assign = self.wait = Flaky()


@pytest.mark.parametrize("method", ["start", "assign", "wait"])
def test_an_actor_that_cannot_be_reached_for_a_moment_is_called_again(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.cluster.stream_actors._AGAIN_S", 0.0)
    actor = FlakyActor()
    handle = StreamActorHandle("stream/1", actor)
    calls = {"start": lambda: handle.start(None), "assign": lambda: handle.assign(1, ()), "wait": handle.wait}
    asyncio.run(calls[method]())
    assert getattr(actor, method).calls == 2
