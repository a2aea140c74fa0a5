"""Enrichment: asks a service over HTTP for the profile of each visitor, for many visits at the same time.

Topics: ``visits`` (page → user), ``visits-with-profiles`` (page → visit with profile). The service answers ``GET
/users/NAME`` with a profile as JSON. If the service is busy or down, it is asked again. If it does not know a user, the
visit has no city.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request

import msgspec

import penstock as ps

SERVICE = os.environ.get("PROFILES_URL", "http://127.0.0.1:8001")


class Visit(msgspec.Struct, frozen=True):
    """A visit with the city of its user, if the service knows the user."""

    user: str
    city: str | None


def with_profile(user: str) -> Visit:
    """Asks the service. A plain function, so it runs in a thread; with ``httpx.AsyncClient`` it could be ``async``."""
    try:
        with urllib.request.urlopen(f"{SERVICE}/users/{user}", timeout=2) as answer:
            return Visit(user, json.load(answer)["city"])
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return Visit(user, None)
        raise


def may_pass(error: Exception) -> bool:
    """Returns True if the service may answer when it is asked again."""
    return not isinstance(error, urllib.error.HTTPError) or error.code in (429, 502, 503, 504)


calls = ps.Calls(
    max_in_flight=50,
    timeout_ms=5_000,
    retry=ps.Retry(tries=4, backoff_ms=100, retryable=may_pass),
    breaker=ps.Breaker(failures=20, open_ms=2_000),
    cache=ps.Cache(ttl_ms=60_000),
    collapse=True,
)
strings, visits = ps.Serdes.string(), ps.Serdes.json(Visit)
builder = ps.StreamsBuilder()
(
    builder.stream("visits", ps.Consumed.with_(strings, strings))
    .map_values_async(with_profile, calls)
    .to("visits-with-profiles", ps.Produced.with_(strings, visits))
)

app = ps.KafkaStreams(
    builder.build(),
    {
        "application.id": "enrichment",
        "bootstrap.servers": os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS", "127.0.0.1:9092"),
    },
)
