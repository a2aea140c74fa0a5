"""The live stream over a socket: what a client gets, and when a stream ends."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from penstock.api import connections
from penstock.api.page import live_feed
from penstock.api.page.gzip_events import gzipped
from penstock.api.page.live_bodies import LiveDocument
from penstock.api.page.live_feed import LiveFeed
from penstock.api.server import serve
from penstock.cluster.client.server_settings import Scope, ServerSettings, Token
from penstock.cluster.read_side import ApplicationState, ApplicationStatus
from penstock.common.errors import TaskNotReadyError
from tests.api.events import LIVE, applied, events_of
from tests.api.fake import FakeReadSide
from tests.api.served import served
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.xdist_group("server")
READ, OPERATE = "read-token-0123456789", "operate-token-0123456789"


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_feed, "ASK_EVERY_S", 0.02)


class Counting(FakeReadSide):
    """Counts the questions for the status; each answer has one more epoch of its first actor."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def status(self) -> ApplicationStatus:
        self.asked += 1
        (first, *others) = (await super().status()).actors
        return replace(self.current, actors=(replace(first, commits=self.asked), *others))


def play(
    with_client: Callable[[httpx.AsyncClient], Awaitable[None]],
    side: FakeReadSide | None = None,
    settings: ServerSettings | None = None,
) -> None:
    """Calls ``with_client`` with a client of a server."""

    async def run(url: str, _: int) -> None:
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client, asyncio.timeout(PATIENCE_S):
            await with_client(client)

    asyncio.run(served(run, side or Counting(), settings))


def test_a_client_gets_the_whole_document_and_then_changes() -> None:
    async def look(client: httpx.AsyncClient) -> None:
        async with client.stream("GET", LIVE) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert answer.headers["cache-control"] == "no-store"
            events = events_of(answer)
            kind, document = await anext(events)
            LiveDocument.model_validate(document)
            assert (kind, set(document)) == ("whole", set(LiveDocument.model_fields))
            assert document["application"]["it"]["may_operate"] is True
            commits = document["actors"]["actor-1"]["commits"]
            kind, delta = await anext(events)
            assert (kind, delta["actors"]["actor-1"]["commits"] > commits) == ("changes", True)
            assert "rollout" not in delta, "it has not changed"
            LiveDocument.model_validate(applied(document, delta))

    play(look)


def test_each_event_can_be_decoded_as_soon_as_it_has_arrived() -> None:
    side = Counting()
    plain, sizes = bytearray(), list[int]()

    async def look(client: httpx.AsyncClient) -> None:
        async with client.stream("GET", LIVE) as answer:
            assert (answer.headers["content-encoding"], answer.headers["vary"]) == ("gzip", "Accept-Encoding")
            decoder = zlib.decompressobj(zlib.MAX_WBITS + 16)
            async for part in answer.aiter_raw():
                sizes.append(len(part))
                plain.extend(decoder.decompress(part))
                if plain.count(b"event: changes") >= 3:
                    break
            assert plain.endswith(b"\n\n"), "the last event is whole though more will follow"
        assert sum(sizes) < len(plain) / 2

    play(look, side)


def test_without_gzip_the_stream_is_plain() -> None:
    async def look(client: httpx.AsyncClient) -> None:
        async with client.stream("GET", LIVE, headers={"Accept-Encoding": "identity"}) as answer:
            assert "content-encoding" not in answer.headers
            async for part in answer.aiter_raw():
                assert part.startswith(b"event: whole\ndata: {")
                break

    play(look)


def test_a_compressed_stream_has_a_sound_end_and_its_events_are_compressed_once() -> None:
    sent = [b"event: whole\ndata: {}\n\n", b"event: changes\ndata: {1}\n\n" * 100]

    async def events() -> AsyncGenerator[bytes]:
        for each in sent:
            yield each

    async def all_of() -> list[bytes]:
        return [part async for part in gzipped(events())]

    one, other = asyncio.run(all_of()), asyncio.run(all_of())
    assert gzip.decompress(b"".join(one)) == b"".join(sent)
    assert [first is second for first, second in zip(one, other, strict=True)][1:3] == [True, True]


def test_a_reconnect_begins_with_the_whole_document() -> None:
    async def look(client: httpx.AsyncClient) -> None:
        for _ in range(2):
            async with client.stream("GET", LIVE) as answer:
                assert (await anext(events_of(answer)))[0] == "whole"

    play(look)


def asking() -> int:
    """The number of tasks of the server, which runs in the loop of the test, that ask for the status."""
    return sum(
        getattr(task.get_coro(), "__qualname__", "") == LiveFeed._poll.__qualname__ for task in asyncio.all_tasks()
    )


def test_one_status_serves_all_clients_and_none_is_asked_for_without_clients() -> None:
    side = Counting()

    async def look(client: httpx.AsyncClient) -> None:
        assert side.asked == 0
        async with AsyncExitStack() as stack:
            streams = [await stack.enter_async_context(client.stream("GET", LIVE)) for _ in range(5)]
            readers = [events_of(stream) for stream in streams]
            got = [0] * len(readers)
            for _ in range(10):
                for number, reader in enumerate(readers):
                    got[number] += (await anext(reader))[0] == "changes"
            assert sum(got) > side.asked > 0, "each answer goes to several clients"
            assert asking() == 1
        while asking():  # the server learns of the end of a connection a moment later
            await asyncio.sleep(0)

    play(look, side)


def test_too_many_streams_are_refused_and_one_that_has_ended_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_feed, "MOST_STREAMS", 2)

    async def look(client: httpx.AsyncClient) -> None:
        async with client.stream("GET", LIVE) as one:
            of_one = events_of(one)  # a stream ends with the last reference to its events
            await anext(of_one)
            async with client.stream("GET", LIVE) as two:
                of_two = events_of(two)
                await anext(of_two)
                refused = await client.get(LIVE)
                assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
                assert refused.json()["type"] == "urn:penstock:problem:too-many-streams"
        while True:  # the server learns of the end of a connection a moment later
            async with client.stream("GET", LIVE) as again:
                if again.status_code == 200:
                    assert (await anext(events_of(again)))[0] == "whole"
                    return

    play(look)


def test_requests_that_arrive_together_do_not_get_more_streams_than_there_may_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_feed, "MOST_STREAMS", 3)

    async def look(url: str, port: int) -> None:
        ends = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", port) for _ in range(20)))
        for _, writer in ends:
            writer.write(f"GET {LIVE} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        heads = await asyncio.gather(*(reader.readline() for reader, _ in ends))
        for _, writer in ends:
            writer.close()
        assert sorted(int(head.split()[1]) for head in heads) == [200] * 3 + [503] * 17

    asyncio.run(served(look, Counting()))


def test_streams_are_no_waiting_queries_and_are_not_taken_for_stalled_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("HEAD_S", "READING_S"):
        monkeypatch.setattr(connections, limit, 0.3)
    monkeypatch.setattr(live_feed, "ASK_EVERY_S", 60.0)
    monkeypatch.setattr(live_feed, "HEARTBEAT_S", 0.25)

    async def look(client: httpx.AsyncClient) -> None:
        async with client.stream("GET", LIVE) as one, client.stream("GET", LIVE) as two:
            events = events_of(one), events_of(two)
            for each in events:
                assert (await anext(each))[0] == "whole"
            for _ in range(8):  # 2 s of silence, in which stalled clients are looked for twice
                for each in events:
                    assert await anext(each) == ("", None)
            assert (await client.get("/v1/applications/word-count")).status_code == 200

    play(look, settings=ServerSettings(max_waiting_queries=1))


def test_a_stop_of_the_server_ends_streams_at_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.api.server._DRAIN_S", 60)  # for other answers: longer than a stop of this process

    async def run() -> None:
        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        server = asyncio.ensure_future(serve(Counting(), ServerSettings(), address.set_result))
        client = httpx.AsyncClient(base_url=await address, timeout=PATIENCE_S)
        async with client, client.stream("GET", LIVE) as answer:
            events = events_of(answer)
            assert (await anext(events))[0] == "whole"
            server.cancel()
            kinds = [kind async for kind, _ in events]  # ends in order, without an error of the connection
            assert set(kinds) <= {"changes"}
            with pytest.raises(asyncio.CancelledError):
                await server
        assert "graceful shutdown exceeded" not in caplog.text, "it did not wait as for other answers under way"

    asyncio.run(run())


def test_a_coordinator_that_does_not_answer_is_shown_until_it_does() -> None:
    side = Counting()

    async def look(client: httpx.AsyncClient) -> None:
        async with client.stream("GET", LIVE) as answer:
            events = events_of(answer)
            _, document = await anext(events)
            assert document["application"]["it"]["silent_since_ms"] is None
            side.failure = TaskNotReadyError("the coordinator of 'word-count' restarts")
            while document["application"]["it"]["silent_since_ms"] is None:
                document = applied(document, (await anext(events))[1])
            (finding,) = document["findings"].values()
            assert finding["level"] == "fault"
            assert finding["sentence"] == "The coordinator does not answer: the coordinator of 'word-count' restarts"
            assert finding["since_ms"] == document["application"]["it"]["silent_since_ms"]
            assert document["tasks"], "the last figures remain"
            side.failure = None
            while document["application"]["it"]["silent_since_ms"] is not None:
                document = applied(document, (await anext(events))[1])
            assert all(each["sentence"] != finding["sentence"] for each in document["findings"].values())

    play(look, side)


def test_a_coordinator_that_has_not_answered_yet_is_shown_too() -> None:
    side = Counting()
    side.failure = RuntimeError("password=secret")

    async def look(client: httpx.AsyncClient) -> None:
        async with client.stream("GET", LIVE) as answer:
            kind, document = await anext(events_of(answer))
            LiveDocument.model_validate(document)
            assert (kind, document["application"]["it"]["application_id"]) == ("whole", "word-count")
            assert document["findings"]["0"]["sentence"].startswith("There are no figures (RuntimeError)")
            assert "secret" not in str(document)

    with capture_logs() as logged:
        play(look, side)
    (line,) = [each for each in logged if each["event"] == "the live stream has no figures"]
    assert line["exc_info"] is side.failure


def test_an_application_that_has_ended_is_shown_as_ended() -> None:
    side = Counting()

    async def look(client: httpx.AsyncClient) -> None:
        async with client.stream("GET", LIVE) as answer:
            events = events_of(answer)
            _, document = await anext(events)
            side.current = replace(side.current, state=ApplicationState.ERROR, error="boom")
            while document["application"]["it"]["state"] != "ERROR":
                document = applied(document, (await anext(events))[1])
            assert document["findings"]["0"]["sentence"] == "The application has ended with an error: boom"

    play(look, side)


@pytest.mark.parametrize(("token", "operates"), [(READ, False), (OPERATE, True)])
def test_a_stream_shows_what_its_token_allows(token: str, operates: bool) -> None:
    settings = ServerSettings(tokens=(Token.of(Scope.READ, READ), Token.of(Scope.OPERATE, OPERATE)))

    async def look(client: httpx.AsyncClient) -> None:
        assert (await client.get(LIVE)).status_code == 401
        assert (await client.get(LIVE, params={"token": token})).status_code == 401
        async with client.stream("GET", LIVE, headers={"Authorization": f"Bearer {token}"}) as answer:
            events = events_of(answer)
            for _ in range(3):
                _, rows = await anext(events)
                assert rows["application"]["it"]["may_operate"] is operates

    play(look, settings=settings)


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "null"}],
    ids=str,
)
def test_without_tokens_no_page_of_another_site_gets_a_stream(headers: dict[str, str]) -> None:
    async def look(client: httpx.AsyncClient) -> None:
        answer = await client.get(LIVE, headers=headers)
        assert answer.status_code == 403
        assert answer.headers["content-type"] == "application/problem+json"
        own: Any = {"Origin": str(client.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"}
        async with client.stream("GET", LIVE, headers=own) as stream:
            assert (await anext(events_of(stream)))[0] == "whole"

    play(look)


def test_another_application_has_no_stream_here() -> None:
    async def look(client: httpx.AsyncClient) -> None:
        answer = await client.get("/v1/applications/another/live")
        assert (answer.status_code, answer.json()["known_applications"]) == (404, ["word-count"])

    play(look)
